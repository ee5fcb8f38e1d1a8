//! A list of pods at a steady load: pods come at random, stay for a while and leave again.
//!
//! Pods are drawn evenly from the list; gaps between arrivals and holding times are exponential,
//! so that the GPUs asked for at any time are a given part of all on average. A pod that does not
//! fit when it comes is turned away. Counted from when the cluster has filled up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cleave_model::{Millis, WorkerId};

use super::Cleave;
use super::openb::{List, StudyError, Who};
use crate::baseline::{Board, Placement};
use crate::drive::Drive;
use crate::random::SplitMix64;
use crate::trace::sequence::Arrival;

/// Mean holding time.
const HOLDING_MS: f64 = 3_600_000.0;
/// Holding times before anything is counted, and all in all.
const WARM: u64 = 6;
const TOTAL: u64 = 9;

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// Pods that came while it counted.
    pub arrived: u64,
    /// GPU milli asked for by pods that would have been there, % of all, over time.
    pub offered: f64,
    /// GPU milli held, % of all, over time.
    pub allocated: f64,
    /// Pods turned away, %.
    pub refused_pods: f64,
    /// GPU milli of pods turned away, % of what came.
    pub refused_work: f64,
}

/// One pod of the stream.
#[derive(Clone, Copy, Debug)]
struct Visit {
    pod: usize,
    from: Millis,
    to: Millis,
}

/// Visits in the order in which they come.
fn visits(list: &List, seed: u64, load_percent: u64) -> Vec<Visit> {
    let mut rng = SplitMix64::new(seed);
    let pods = &list.trace.pods;
    let mean_milli =
        pods.iter().map(|pod| pod.total_gpu_milli()).sum::<u64>() as f64 / pods.len() as f64;
    let there = list.trace.total_gpu_milli() as f64 * load_percent as f64 / 100.0 / mean_milli;
    let mut exponential = |mean: f64| {
        // Of 53 bits, never 0.
        let even = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-even.ln() * mean) as Millis
    };
    let times: Vec<(Millis, Millis)> =
        std::iter::repeat_with(|| (exponential(HOLDING_MS / there), exponential(HOLDING_MS)))
            .scan(0, |now, (gap, stay)| {
                *now += gap;
                Some((*now, stay))
            })
            .take_while(|(now, _)| *now < TOTAL * HOLDING_MS as Millis)
            .collect();
    let mut rng = SplitMix64::new(!seed);
    let visit = |(from, stay)| Visit {
        pod: rng.below(pods.len()),
        from,
        to: from + stay,
    };
    times.into_iter().map(visit).collect()
}

/// Who can take pods and let go of them again.
trait Cluster {
    /// Places the `number`th visit, of this pod, or turns it away.
    fn come(&mut self, number: usize, visit: &Visit) -> bool;
    /// A visit that was placed is over.
    fn leave(&mut self, number: usize, visit: &Visit);
}

/// Runs the list at a load, % of all GPU milli.
pub fn run(list: &List, who: Who, seed: u64, load_percent: u64) -> Result<Steady, StudyError> {
    let visits = visits(list, seed, load_percent);
    match (who, who.baseline(seed)) {
        (_, Some(mut rule)) => {
            let fleet = list.fleet.shuffled(seed);
            rule.expect(&fleet.mix());
            let mut plain = Plain {
                board: Board::new(fleet.nodes.clone(), rule),
                requests: &fleet.requests,
                placed: vec![None; visits.len()],
            };
            Ok(follow(list, &visits, &mut plain))
        }
        (Who::Cleave(mix), None) => {
            let arrivals: Vec<Arrival> = (visits.iter().zip(0..))
                .map(|(visit, copy)| Arrival {
                    pod: visit.pod,
                    copy,
                })
                .collect();
            let mut engine = Engine {
                drive: Drive::new(Cleave::default(), list.facts(mix)?),
                work: list
                    .work(&arrivals)?
                    .into_iter()
                    .map(|(work, _)| Some(work))
                    .collect(),
                workers: vec![None; visits.len()],
            };
            Ok(follow(list, &visits, &mut engine))
        }
        (_, None) => unreachable!("only Cleave is no baseline"),
    }
}

fn follow(list: &List, visits: &[Visit], cluster: &mut impl Cluster) -> Steady {
    let hour = HOLDING_MS as Millis;
    let (counted_from, end) = (WARM * hour, TOTAL * hour);
    let counted =
        |from: Millis, to: Millis| to.min(end).saturating_sub(from.max(counted_from)) as f64;
    let mut leaving: BinaryHeap<Reverse<(Millis, usize)>> = BinaryHeap::new();
    let (mut held, mut offered) = (0.0, 0.0);
    let (mut pods, mut refused_pods, mut milli_come, mut milli_refused) = (0, 0, 0, 0);
    for (number, visit) in visits.iter().enumerate() {
        while let Some(&Reverse((to, other))) = leaving.peek().filter(|l| l.0.0 <= visit.from) {
            leaving.pop();
            cluster.leave(other, &visits[other]);
            debug_assert!(to <= visit.from);
        }
        let milli = list.trace.pods[visit.pod].total_gpu_milli();
        let placed = cluster.come(number, visit);
        let milli_ms = milli as f64 * counted(visit.from, visit.to);
        offered += milli_ms;
        if placed {
            leaving.push(Reverse((visit.to, number)));
            held += milli_ms;
        }
        if visit.from >= counted_from {
            pods += 1;
            refused_pods += u64::from(!placed);
            milli_come += milli;
            milli_refused += if placed { 0 } else { milli };
        }
    }
    let all = list.trace.total_gpu_milli() as f64 * (end - counted_from) as f64;
    Steady {
        arrived: pods,
        offered: offered / all * 100.0,
        allocated: held / all * 100.0,
        refused_pods: refused_pods as f64 / pods as f64 * 100.0,
        refused_work: milli_refused as f64 / milli_come as f64 * 100.0,
    }
}

/// A rule over plain nodes.
struct Plain<'a> {
    board: Board<Box<dyn crate::baseline::Policy>>,
    requests: &'a [crate::baseline::Request],
    placed: Vec<Option<Placement>>,
}

impl Cluster for Plain<'_> {
    fn come(&mut self, number: usize, visit: &Visit) -> bool {
        let placement = self.board.choose(&self.requests[visit.pod]);
        if let Some(placement) = &placement {
            self.board.take(placement);
        }
        self.placed[number] = placement;
        self.placed[number].is_some()
    }

    fn leave(&mut self, number: usize, _: &Visit) {
        let placement = self.placed[number].take().expect("was placed");
        self.board.give_back(&placement);
    }
}

/// Cleave's planner over its state.
struct Engine {
    drive: Drive<Cleave>,
    work: Vec<Option<cleave_model::workload::Workload>>,
    workers: Vec<Option<(WorkerId, u32)>>,
}

impl Cluster for Engine {
    fn come(&mut self, number: usize, visit: &Visit) -> bool {
        let work = self.work[number].take().expect("comes once");
        let name = work.name.clone();
        let decided = self.drive.submit(visit.from, vec![work]);
        let place = decided.places.into_iter().next();
        self.workers[number] = place.map(|(id, attempt, _)| (id, attempt));
        let placed = self.workers[number].is_some();
        if !placed {
            self.drive.cancel(visit.from, name);
        }
        placed
    }

    fn leave(&mut self, number: usize, visit: &Visit) {
        let (id, attempt) = self.workers[number].take().expect("was placed");
        self.drive.end(visit.to, vec![(id, attempt)]);
    }
}
