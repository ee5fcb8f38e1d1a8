//! The whole life of actions under faults, and the small rules around it.

mod hands;
mod rules;
mod world;

use proptest::prelude::*;
use world::World;

/// A few worlds here, many where `PROPTEST_CASES` says so.
fn config() -> ProptestConfig {
    let set = ProptestConfig::default();
    let cases = if set.cases == 256 { 40 } else { set.cases };
    ProptestConfig {
        cases,
        max_shrink_time: 15_000,
        failure_persistence: None,
        ..set
    }
}

proptest! {
    #![proptest_config(config())]

    /// Whatever is lost, repeated, late, out of order or dead, no attempt runs twice, no worker
    /// lives twice, and once the faults end every lease settles and the journal tells it all.
    #[test]
    fn everything_settles(steps in prop::collection::vec(any::<u16>(), 0..300)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}
