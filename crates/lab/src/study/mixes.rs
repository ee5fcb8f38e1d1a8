//! Streams of MIG slices in random mixes on a thousand empty H100s.
//!
//! Slices of six profiles, in a mix drawn evenly from all mixes (Dirichlet with all parameters
//! 1), arrive until 110 % of all memory units are asked for. Nothing leaves, moves, or is refused
//! while it fits.

use std::collections::BTreeMap;

use cleave_model::ask::{Ask, Constraints, Gpus, Isolation, Part};
use cleave_model::board::Catalogue;
use cleave_model::event::Event;
use cleave_model::node::Node;
use cleave_model::policy::Mix;

use super::slices::{Filled, Geometry, Rule};
use super::{Cleave, bound, name, policy, single};
use crate::drive::Drive;
use crate::random::SplitMix64;

/// Boards in all.
pub const GPUS: usize = 1_000;
const NODES: usize = 125;
const BOARD: &str = "H100-80GB-SXM";
/// The profiles asked for.
pub const PROFILES: [&str; 6] = [
    "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb",
];
/// Parts that a mix is counted in.
const PARTS: usize = 1_000_000;
/// Memory units asked for, % of all.
const ARRIVING: usize = 110;

/// One mix and a stream drawn from it.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How often each profile comes, of a million.
    pub mix: Vec<u64>,
    /// What comes, as places in [`PROFILES`].
    pub arrivals: Vec<usize>,
}

/// What all schedulers made of one stream.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The seed of the stream.
    pub seed: u64,
    /// Slices that came.
    pub arrivals: usize,
    /// By [`Rule::ALL`].
    pub rules: Vec<Filled>,
    /// Cleave where the mix is told.
    pub known: Filled,
    /// Cleave where it is learned from the stream.
    pub learned: Filled,
    /// Most weight with refusal allowed, %.
    pub bound: f64,
}

/// The board of this study with its profiles.
pub fn geometry() -> Geometry {
    let boards = Catalogue::builtin();
    let id = boards.find(BOARD).expect("built in");
    let board = (**boards.board(id)).clone();
    let profiles = PROFILES.iter().map(|name| board.profile(name));
    let profiles = profiles.collect::<Result<_, _>>();
    Geometry::new(board, profiles.expect("built in"))
}

/// The mix and stream of a seed.
pub fn stream(geometry: &Geometry, seed: u64) -> Stream {
    let mut rng = SplitMix64::new(seed);
    // The gaps between evenly drawn cuts of a line have Dirichlet's distribution.
    let mut cuts: Vec<usize> = (1..PROFILES.len()).map(|_| rng.below(PARTS + 1)).collect();
    cuts.extend([0, PARTS]);
    cuts.sort_unstable();
    let mix = cuts
        .windows(2)
        .map(|cut| (cut[1] - cut[0]) as u64)
        .collect();
    let board = geometry.board();
    let all = GPUS * usize::from(board.units) * ARRIVING / 100;
    let (mut units, mut arrivals) = (0, Vec::new());
    while units < all {
        let at = rng.below(PARTS);
        let profile = cuts[1..]
            .iter()
            .position(|&cut| at < cut)
            .expect("below the last cut");
        units += usize::from(board.at(geometry.profiles()[profile]).size);
        arrivals.push(profile);
    }
    Stream { mix, arrivals }
}

/// All schedulers on the stream of one seed.
pub fn compare(geometry: &Geometry, seed: u64) -> Compared {
    let stream = stream(geometry, seed);
    let rule = |&rule: &Rule| {
        let placed = geometry.run(rule, GPUS, &stream.mix, &stream.arrivals);
        geometry.filled(GPUS, &placed)
    };
    let mut demand = vec![0; PROFILES.len()];
    stream
        .arrivals
        .iter()
        .for_each(|&profile| demand[profile] += 1);
    Compared {
        seed,
        arrivals: stream.arrivals.len(),
        rules: Rule::ALL.iter().map(rule).collect(),
        known: geometry.filled(GPUS, &cleave(&stream, Mix::Prior)),
        learned: geometry.filled(GPUS, &cleave(&stream, Mix::Learned)),
        bound: bound::most_weight(geometry, GPUS, &demand),
    }
}

/// Slices placed of each profile by Cleave's planner.
pub fn cleave(stream: &Stream, mix: Mix) -> Vec<u64> {
    let asks = PROFILES.map(ask);
    let prior = asks.iter().cloned().zip(stream.mix.iter().copied());
    let mut facts = vec![
        Event::Policy(policy(mix)),
        Event::Queue(crate::convert::queue(name("study"))),
    ];
    if mix == Mix::Prior {
        facts.push(Event::Prior(prior.collect()));
    }
    facts.extend((0..NODES).map(|number| Event::Node(node(number))));
    let mut drive = Drive::new(Cleave::default(), facts);
    let mut placed = vec![0; PROFILES.len()];
    for (number, &profile) in stream.arrivals.iter().enumerate() {
        let work = single(number, asks[profile].clone(), number as u64);
        let name = work.name.clone();
        let decided = drive.submit(number as u64, vec![work]);
        placed[profile] += decided.places.len() as u64;
        if decided.places.is_empty() {
            drive.cancel(number as u64, name);
        }
    }
    placed
}

/// Host resources are ample: a core and a GiB for each slice that could be there.
fn node(number: usize) -> Node {
    let gpus = GPUS / NODES;
    Node {
        name: name(&format!("n{number:03}")),
        cpu_milli: 64_000,
        memory_bytes: 64 << 30,
        pods: 256,
        gpus: vec![name(BOARD); gpus],
        links: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        pool: name("study"),
        price_micros: None,
    }
}

fn ask(profile: &str) -> Ask {
    Ask {
        cpu_milli: 1_000,
        memory_bytes: 1 << 30,
        gpus: Some(Gpus {
            count: 1,
            part: Part::Profile(name(profile)),
            isolation: Isolation::Hard,
            models: Vec::new(),
            graphics: false,
        }),
        limits: Constraints::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_follows_from_its_seed() {
        let geometry = geometry();
        let mut totals = [0; 6];
        for seed in 1..=50 {
            let once = stream(&geometry, seed);
            assert_eq!(once.arrivals, stream(&geometry, seed).arrivals);
            assert_eq!(once.mix.iter().sum::<u64>(), PARTS as u64);
            let size = |&p: &usize| u64::from(geometry.board().at(geometry.profiles()[p]).size);
            let units: u64 = once.arrivals.iter().map(size).sum();
            assert!((8_800..8_808).contains(&units), "{units}");
            for (total, share) in totals.iter_mut().zip(&once.mix) {
                *total += share;
            }
            // The stream is of its mix.
            let most = (0..6).max_by_key(|&p| once.mix[p]).expect("six");
            let came = once.arrivals.iter().filter(|&&p| p == most).count() as f64;
            let share = came / once.arrivals.len() as f64;
            assert!((share - once.mix[most] as f64 / PARTS as f64).abs() < 0.05);
        }
        // All profiles are alike to the draw: a sixth each, with a deviation of 0.02.
        let even = |&total: &u64| (total as f64 / 50.0 / PARTS as f64 - 1.0 / 6.0).abs() < 0.08;
        assert!(totals.iter().all(even), "{totals:?}");
    }
}
