//! The benchmark FGD was published with: pods arrive one at a time, nothing leaves, a pod that
//! fits nowhere is dropped for good. Read off at each 1 % of *arrived* GPU demand.

use std::collections::BTreeMap;

use cleave_engine::inventory::NodeIx;
use cleave_engine::planner::Planner;
use cleave_model::event::Event;
use cleave_model::workload::Workload;

use crate::baseline::fgd::Fgd;
use crate::baseline::{Board, Fleet, Node, Policy, Request};
use crate::drive::{Decided, Drive};
use crate::planners::{mix_of, view};
use crate::trace::fgd::POINTS;

/// What a run came to. Curves hold a value at 0, 1 .. 130 % arrived, as the published ones do:
/// the mean over the arrivals whose arrived % rounds to that number; none where there is none.
#[derive(Clone, Debug)]
pub struct Run {
    /// GPU milli placed, % of all; what was asked for, not what was set aside.
    pub allocated: Vec<Option<f64>>,
    /// GPU milli that a typical pod cannot use, % of all.
    pub fragmented: Vec<Option<f64>>,
    /// Pods placed.
    pub placed: usize,
    /// Pods dropped.
    pub dropped: usize,
}

/// Measures a run as it goes.
#[derive(Clone, Debug)]
struct Meter {
    total_milli: f64,
    arrived_milli: u64,
    points: Vec<(usize, [f64; 2])>,
}

impl Meter {
    fn new(total_milli: u64) -> Self {
        Self {
            total_milli: total_milli as f64,
            arrived_milli: 0,
            points: vec![(0, [0.0; 2]); POINTS],
        }
    }

    fn record(&mut self, asked_milli: u64, allocated_milli: u64, fragmented_milli: f64) {
        self.arrived_milli += asked_milli;
        let percent = |milli: f64| milli / self.total_milli * 100.0;
        // As published: to whole percents and to hundredths, halves to even.
        let arrived = percent(self.arrived_milli as f64).round_ties_even() as usize;
        let hundredths = |value: f64| (percent(value) * 100.0).round_ties_even() / 100.0;
        if let Some((count, [allocated, fragmented])) = self.points.get_mut(arrived) {
            *count += 1;
            *allocated += hundredths(allocated_milli as f64);
            *fragmented += hundredths(fragmented_milli);
        }
    }

    fn curve(&self, which: usize) -> Vec<Option<f64>> {
        let mean = |(count, sums): &(usize, [f64; 2])| {
            (*count > 0).then(|| (sums[which] / *count as f64 * 100.0).round_ties_even() / 100.0)
        };
        self.points.iter().map(mean).collect()
    }

    fn run(&self, placed: usize, dropped: usize) -> Run {
        Run {
            allocated: self.curve(0),
            fragmented: self.curve(1),
            placed,
            dropped,
        }
    }
}

/// What is fragmented in all, followed node by node.
struct Fragments {
    measure: Fgd,
    by_node: Vec<f64>,
    sum_milli: f64,
}

impl Fragments {
    fn of<'a>(mix: &[(Request, u64)], nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut measure = Fgd::default();
        measure.expect(mix);
        let by_node: Vec<f64> = nodes.map(|n| measure.fragmented_milli(n)).collect();
        Self {
            measure,
            sum_milli: by_node.iter().sum(),
            by_node,
        }
    }

    fn set(&mut self, node: usize, now: &Node) {
        let after = self.measure.fragmented_milli(now);
        self.sum_milli += after - self.by_node[node];
        self.by_node[node] = after;
    }
}

/// Runs `arrivals` (places in the fleet's requests) through the policy.
pub fn run(
    fleet: &Fleet,
    arrivals: impl IntoIterator<Item = usize>,
    mut policy: impl Policy,
) -> Run {
    let mix = fleet.mix();
    policy.expect(&mix);
    let mut fragments = Fragments::of(&mix, fleet.nodes.iter());
    let mut board = Board::new(fleet.nodes.clone(), policy);
    let mut meter = Meter::new(fleet.total_gpu_milli());
    let mut allocated_milli = 0;
    let (mut placed, mut dropped) = (0, 0);
    for arrival in arrivals {
        let request = &fleet.requests[arrival];
        match board.choose(request) {
            Some(placement) => {
                board.take(&placement);
                fragments.set(placement.node, &board.nodes()[placement.node]);
                allocated_milli += request.total_gpu_milli();
                placed += 1;
            }
            None => dropped += 1,
        }
        meter.record(
            request.total_gpu_milli(),
            allocated_milli,
            fragments.sum_milli,
        );
    }
    meter.run(placed, dropped)
}

/// The same through an engine: `facts` (policy, nodes, the mix to expect) make the state, each of
/// `arrivals` is submitted, planned, and started at once, or cancelled where the plan does not
/// place it.
///
/// `arrivals` come with what they ask for in thousandths of a GPU, and are submitted at their
/// place in the order, in milliseconds. `watch` sees every decision.
pub fn run_planner<P: Planner>(
    facts: Vec<Event>,
    arrivals: impl IntoIterator<Item = (Workload, u64)>,
    planner: P,
    mut watch: impl FnMut(&Decided),
) -> Run {
    let mut drive = Drive::new(planner, facts);
    let state = drive.state();
    let mix = state
        .prior()
        .map(|prior| mix_of(prior, state.boards()))
        .unwrap_or_default();
    let nodes: Vec<Node> = state.nodes().map(|(_, books)| view(books)).collect();
    let places: BTreeMap<NodeIx, usize> = state.nodes().map(|(ix, _)| ix).zip(0..).collect();
    let mut fragments = Fragments::of(&mix, nodes.iter());
    let mut meter = Meter::new(nodes.iter().map(Node::total_gpu_milli).sum());
    let mut allocated_milli = 0;
    let (mut placed, mut dropped) = (0, 0);
    for (now, (workload, asked_milli)) in (1..).zip(arrivals) {
        let (name, workers) = (workload.name.clone(), workload.workers() as usize);
        let decided = drive.submit(now, vec![workload]);
        watch(&decided);
        if decided.places.len() == workers {
            for (_, _, hold) in decided.places {
                let ix = drive.state().node_ix(hold.node.as_str()).expect("known");
                let books = drive.state().node(ix).expect("known");
                fragments.set(places[&ix], &view(books));
            }
            allocated_milli += asked_milli;
            placed += 1;
        } else {
            drive.cancel(now, name);
            dropped += 1;
        }
        meter.record(asked_milli, allocated_milli, fragments.sum_milli);
    }
    meter.run(placed, dropped)
}
