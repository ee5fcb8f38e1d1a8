//! A large synthetic cluster and a backlog of everything at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cleave_engine::Planner;
use cleave_engine::planner::Question;
use cleave_engine::state::{NoSink, State};
use cleave_model::GPU;
use cleave_model::action::What;
use cleave_model::ask::{Ask, Constraints, Gpus, Isolation, Part};
use cleave_model::board::Catalogue;
use cleave_model::event::{Batch, Event};
use cleave_model::lease::Hold;
use cleave_model::node::Node;
use cleave_model::plan::Budget;
use cleave_model::policy::Mix;
use cleave_model::workload::Workload;

use super::{Cleave, name, policy, single};
use crate::random::SplitMix64;

const GPUS_A_NODE: usize = 8;
/// Board, how many of ten nodes have it, milli-cores, GiB of host memory.
const MODELS: [(&str, usize, u64, u64); 3] = [
    ("H100-80GB-SXM", 4, 192_000, 2_048),
    ("A100-80GB", 3, 128_000, 1_024),
    ("T4", 3, 96_000, 384),
];
/// Every set of these is the taints of some node.
const TAINTS: [&str; 4] = ["team-a", "team-b", "spot", "maintenance"];
/// One of so many nodes is tainted.
const TAINTED: usize = 4;
const RACKS: usize = 200;
/// Host memory differs from node to node by up to so many KiB.
const JITTER_KIB: usize = 4_096;
/// Kinds of asks that are drawn; some turn out equal.
const KINDS: usize = 400;

/// The cluster and what waits for it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes of eight GPUs.
    pub nodes: Vec<Node>,
    /// One worker each.
    pub work: Vec<Workload>,
}

/// What one plan over all of it came to.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Workers placed.
    pub placed: usize,
    /// Weight placed, % of all GPUs.
    pub weight: f64,
    /// Folding the nodes and the work.
    pub apply: Duration,
    /// The first prices: a refinement from nothing.
    pub refine: Duration,
    /// Planning from empty.
    pub plan: Duration,
    /// States of nodes that the engine tells apart once all is placed, labels, taints and host
    /// memory aside.
    pub classes: usize,
}

impl Cluster {
    /// A cluster of so many GPUs with so many asks waiting; all follows from the seed.
    pub fn new(gpus: usize, asks: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let nodes = (0..gpus / GPUS_A_NODE)
            .map(|number| node(number, &mut rng))
            .collect();
        let kinds: Vec<Ask> = (0..KINDS).map(|_| kind(&mut rng)).collect();
        let one = |number| single(number, kinds[rng.below(KINDS)].clone(), 0);
        let work = (0..asks).map(one).collect();
        Self { nodes, work }
    }

    /// Different states of nodes, names and racks apart; and with racks.
    pub fn node_states(&self) -> (usize, usize) {
        let state = |n: &Node| {
            (
                n.gpus[0].clone(),
                n.cpu_milli,
                n.memory_bytes,
                n.taints.clone(),
            )
        };
        let states: BTreeSet<_> = self.nodes.iter().map(state).collect();
        let racks = self.nodes.iter().map(|n| (state(n), n.labels.clone()));
        (states.len(), racks.collect::<BTreeSet<_>>().len())
    }

    /// Different asks.
    pub fn kinds(&self) -> usize {
        self.asks().collect::<BTreeSet<_>>().len()
    }

    fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.work.iter().map(|work| &work.groups[0].ask)
    }

    /// Folds everything, prices it and places what can be placed in one plan.
    pub fn plan(self) -> Planned {
        let gpus = self.nodes.len() * GPUS_A_NODE;
        let mut counts: BTreeMap<Ask, u64> = BTreeMap::new();
        self.asks()
            .for_each(|ask| *counts.entry(ask.clone()).or_default() += 1);
        let began = Instant::now();
        let mut facts = vec![
            Event::Policy(cleave_model::policy::Policy {
                refine_every: 0,
                ..policy(Mix::Prior)
            }),
            Event::Prior(counts.into_iter().collect()),
        ];
        facts.extend(self.nodes.into_iter().map(Event::Node));
        let mut state = State::new();
        let fold = |state: &mut State, number, events| {
            state.apply(
                &Batch {
                    number,
                    now: 0,
                    events,
                },
                &mut NoSink,
            );
        };
        fold(&mut state, 1, facts);
        let apply_nodes = began.elapsed();
        let began = Instant::now();
        let prices = Question::of(&state).answer();
        fold(&mut state, 2, vec![Event::Priced(prices)]);
        let refine = began.elapsed();
        let began = Instant::now();
        fold(
            &mut state,
            3,
            self.work.into_iter().map(Event::Submit).collect(),
        );
        let apply = apply_nodes + began.elapsed();
        let began = Instant::now();
        let planned = Cleave::default().plan(&state, &mut Default::default(), 0, Budget::UNBOUNDED);
        let plan = began.elapsed();
        let places: Vec<&Hold> = planned
            .actions
            .iter()
            .filter_map(|action| match &action.what {
                What::Place(hold) => Some(hold),
                What::Evict { .. } => None,
            })
            .collect();
        let boards = Catalogue::builtin();
        let weight = |hold: &Hold| -> u64 {
            let node = state.node_ix(hold.node.as_str()).expect("known");
            let books = state.node(node).expect("known");
            let slices = hold.slices.iter().map(|slice| {
                let board = boards.board(books.gpus[usize::from(slice.gpu)].board);
                u64::from(cleave_engine::inventory::weight(slice, board))
            });
            slices.sum()
        };
        let decided = places.len();
        let placed: u64 = places.iter().map(|hold| weight(hold)).sum();
        fold(&mut state, 4, vec![Event::Decided(planned)]);
        Planned {
            placed: decided,
            weight: placed as f64 * 100.0 / (gpus as u64 * u64::from(GPU)) as f64,
            apply,
            refine,
            plan,
            classes: Question::of(&state).node_states(),
        }
    }
}

fn node(number: usize, rng: &mut SplitMix64) -> Node {
    let mut lot = rng.below(MODELS.iter().map(|(_, share, ..)| share).sum());
    let drawn = MODELS.iter().find(|(_, share, ..)| {
        let here = lot < *share;
        lot = lot.wrapping_sub(*share);
        here
    });
    let (board, _, cpu_milli, memory_gib) = *drawn.expect("drawn below the sum");
    let set = if rng.below(TAINTED) == 0 {
        rng.below(1 << TAINTS.len())
    } else {
        0
    };
    let taints = TAINTS
        .iter()
        .enumerate()
        .filter(|(bit, _)| set >> bit & 1 == 1);
    let rack = name(&format!("r{:03}", rng.below(RACKS)));
    Node {
        name: name(&format!("n{number:05}")),
        cpu_milli,
        memory_bytes: (memory_gib << 30) - ((rng.below(JITTER_KIB) as u64) << 10),
        pods: 110,
        gpus: vec![name(board); GPUS_A_NODE],
        links: Vec::new(),
        labels: BTreeMap::from([(name("rack"), rack)]),
        taints: taints.map(|(_, taint)| name(taint)).collect(),
        pool: name("study"),
        price_micros: None,
    }
}

/// Of twenty asks: seven for whole GPUs (1, 1, 1, 1, 2, 4, 8), six for MIG profiles, seven for
/// shares. A third names a model, a quarter tolerates a set of taints, one in twenty a rack.
fn kind(rng: &mut SplitMix64) -> Ask {
    let lot = rng.below(20);
    let (count, part, isolation) = match lot {
        0..7 => ([1, 1, 1, 1, 2, 4, 8][lot], Part::Whole, Isolation::Hard),
        7..13 => {
            let profiles = [
                "1g.10gb", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb",
            ];
            (1, Part::Profile(name(profiles[lot - 7])), Isolation::Hard)
        }
        _ => {
            let milli = [100, 200, 250, 300, 400, 500, 600, 800][rng.below(8)];
            let share = Part::Share {
                compute: Some(milli * (GPU / 1_000)),
                memory_mib: None,
            };
            (1, share, Isolation::Limited)
        }
    };
    let models: &[&[&str]] = match part {
        Part::Profile(_) => &[&[], &[], &[], &["A100"], &["H100"]],
        _ => &[
            &[],
            &[],
            &[],
            &[],
            &[],
            &[],
            &["T4"],
            &["A100"],
            &["H100", "A100"],
        ],
    };
    let models = models[rng.below(models.len())];
    let set = if rng.below(4) == 0 {
        rng.below(1 << TAINTS.len())
    } else {
        0
    };
    let tolerated = TAINTS
        .iter()
        .enumerate()
        .filter(|(bit, _)| set >> bit & 1 == 1);
    let rack = (rng.below(20) == 0).then(|| name(&format!("r{:03}", rng.below(RACKS))));
    let select = rack.map(|rack| (name("rack"), rack));
    let cores = [1, 2, 4, 8][rng.below(4)];
    Ask {
        cpu_milli: u64::from(count) * cores * 1_000,
        memory_bytes: (u64::from(count) * cores * [2, 4, 8][rng.below(3)]) << 30,
        gpus: Some(Gpus {
            count,
            part,
            isolation,
            models: models.iter().map(|model| vec![name(model)]).collect(),
            graphics: false,
        }),
        limits: Constraints {
            select: select.into_iter().collect(),
            tolerate: tolerated.map(|(_, taint)| name(taint)).collect(),
            affinity: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_what_it_says() {
        let cluster = Cluster::new(8_000, 5_000, 1);
        assert_eq!((cluster.nodes.len(), cluster.work.len()), (1_000, 5_000));
        let (states, _) = cluster.node_states();
        assert!(states > 800, "{states}");
        assert!(
            (300..=400).contains(&cluster.kinds()),
            "{}",
            cluster.kinds()
        );
        let again = Cluster::new(8_000, 5_000, 1);
        assert!(cluster.nodes == again.nodes && cluster.work == again.work);
        let taints: BTreeSet<_> = cluster.nodes.iter().map(|node| &node.taints).collect();
        assert_eq!(taints.len(), 16);
    }
}
