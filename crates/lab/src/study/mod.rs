//! The comparisons that the documents quote: one input, several schedulers, numbers.
//!
//! A study is a pure function of its input, seed and the scheduler, but for the times it notes
//! beside the results. Which of them are run, how often, and how they are printed is up to
//! whoever calls.
//!
//! * [`openb`]: lists of pods arrive once and nothing leaves; FGD's own benchmark.
//! * [`departures`]: the same lists at a steady load; pods leave again.
//! * [`slices`] and [`mixes`]: streams of MIG slices on many equal boards, with [`bound`].
//! * [`cluster`]: a large synthetic cluster and everything at once.
//! * [`models`]: GPU models of a trace that Cleave does not know.

pub mod bound;
pub mod cluster;
pub mod departures;
pub mod mixes;
pub mod models;
pub mod openb;
pub mod slices;

use cleave_engine::planner::{ByPrice, Walk};
use cleave_model::ask::Ask;
use cleave_model::policy::{Mix, Policy};
use cleave_model::workload::{Class, Group, Workload};
use cleave_model::{Millis, Name};

/// The planner under study.
pub type Cleave = Walk<ByPrice>;

/// The default policy with this source of the expected mix.
pub fn policy(mix: Mix) -> Policy {
    Policy {
        mix,
        ..Policy::default()
    }
}

/// The default policy without prices, for planners that do not look at them.
pub fn unpriced() -> Policy {
    Policy {
        refine_every: 0,
        ..Policy::default()
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a legal name")
}

/// One worker with this ask, the `number`th of its study.
fn single(number: usize, ask: Ask, submitted: Millis) -> Workload {
    Workload {
        name: name(&format!("w{number}")),
        queue: name("study"),
        class: Class::Training,
        priority: 0,
        groups: vec![Group {
            name: name("workers"),
            workers: 1,
            min: 1,
            ask,
        }],
        submitted,
        duration: None,
        retries: 0,
    }
}
