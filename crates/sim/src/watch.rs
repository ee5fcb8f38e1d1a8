//! What came of it: statistics, read from the records alone.

use cleave_engine::{inventory::weight, state::State};
use cleave_model::{
    GPU, Millis, Name, WorkerId,
    action::{Subject, What},
    event::{Batch, Event},
    lease::{Hold, Slice},
    observation::Exit,
};
use std::collections::{BTreeMap, BTreeSet};

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records written.
    pub records: u64,
    /// Workloads submitted.
    pub submitted: u64,
    /// Workers that arrived with them.
    pub arrivals: u64,
    /// Placements decided.
    pub placements: u64,
    /// Evictions decided.
    pub evictions: u64,
    /// Attempts that began to run.
    pub started: u64,
    /// Workers that ended by themselves.
    pub ended: u64,
    /// Attempts that could not be started.
    pub failed: u64,
    /// Attempts that ran and were lost with their node.
    pub lost: u64,
    /// For each attempt that began to run: milliseconds since its workload was submitted, in the
    /// order of beginning.
    pub waits: Vec<Millis>,
    /// GPU units held (promised to draining) from a time on, whenever that changed.
    pub held: Vec<(Millis, u64)>,
    /// Logical work of all plans.
    pub steps: u64,
    /// Workloads that ended by themselves.
    pub finished: BTreeSet<Name>,
    /// How many workers of a workload were told to leave, where any was.
    pub evicted: BTreeMap<Name, u64>,
}

impl Outcome {
    /// The wait below which so many of a hundred attempts stayed; 0 if there were none.
    pub fn wait_percentile(&self, percent: usize) -> Millis {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let last = waits.len().saturating_sub(1);
        waits
            .get(last * percent.min(100) / 100)
            .copied()
            .unwrap_or(0)
    }

    /// GPU units times milliseconds held up to a time.
    pub fn held_unit_ms(&self, to: Millis) -> u128 {
        let ends = self.held.iter().skip(1).map(|(at, _)| *at).chain([to]);
        let spans = self.held.iter().zip(ends);
        spans
            .map(|(&(from, units), to)| u128::from(units) * u128::from(to.saturating_sub(from)))
            .sum()
    }
}

/// Follows records and counts.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    outcome: Outcome,
    held: BTreeMap<WorkerId, (u32, u64)>,
    total: u64,
}

impl Watch {
    /// What came of it so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Takes in a record; `state` is as of some record from this one on in the same close.
    pub fn follow(&mut self, batch: &Batch, state: &State) {
        self.outcome.records += 1;
        let before = self.total;
        for event in &batch.events {
            self.event(event, batch.now, state);
        }
        if self.total != before {
            let held = &mut self.outcome.held;
            match held.last_mut() {
                Some((at, total)) if *at == batch.now => *total = self.total,
                _ => held.push((batch.now, self.total)),
            }
        }
    }

    fn event(&mut self, event: &Event, now: Millis, state: &State) {
        let out = &mut self.outcome;
        match event {
            Event::Submit(work) => {
                out.submitted += 1;
                out.arrivals += u64::from(work.workers());
            }
            Event::Decided(plan) => {
                out.steps += plan.steps;
                for name in &plan.withdrawn {
                    if let Subject::Worker(worker) = &name.subject {
                        release(&mut self.held, &mut self.total, worker, name.attempt);
                    }
                }
                for action in &plan.actions {
                    let Subject::Worker(worker) = &action.name.subject else {
                        continue;
                    };
                    match &action.what {
                        What::Place(hold) => {
                            out.placements += 1;
                            let units = units(state, hold);
                            let new = (action.name.attempt, units);
                            let old = self.held.insert(worker.clone(), new);
                            self.total += units;
                            self.total -= old.map_or(0, |(_, units)| units);
                        }
                        What::Evict { .. } => {
                            out.evictions += 1;
                            *out.evicted.entry(worker.workload.clone()).or_default() += 1;
                        }
                    }
                }
            }
            Event::Started(worker, _) => {
                out.started += 1;
                if let Some(work) = state.workload(worker.workload.as_str()) {
                    out.waits.push(now.saturating_sub(work.spec.submitted));
                }
            }
            Event::Freed(worker, attempt, exit) => {
                match exit {
                    Exit::Done | Exit::Error(_) => {
                        out.ended += 1;
                        if state.workload(worker.workload.as_str()).is_none() {
                            out.finished.insert(worker.workload.clone());
                        }
                    }
                    Exit::Lost => out.lost += 1,
                    Exit::Evicted => {}
                }
                release(&mut self.held, &mut self.total, worker, *attempt);
            }
            Event::Failed(worker, attempt, _) => {
                out.failed += 1;
                release(&mut self.held, &mut self.total, worker, *attempt);
            }
            Event::NodeGone(_) | Event::Cancel(_) => {
                // What went with them is read from the state: both are rare.
                self.held.retain(|worker, (attempt, units)| {
                    let stays = state.lease(worker).is_some_and(|l| l.attempt == *attempt);
                    self.total -= if stays { 0 } else { *units };
                    stays
                });
            }
            _ => {}
        }
    }
}

fn release(
    held: &mut BTreeMap<WorkerId, (u32, u64)>,
    total: &mut u64,
    worker: &WorkerId,
    attempt: u32,
) {
    if held.get(worker).is_some_and(|(of, _)| *of == attempt) {
        *total -= held.remove(worker).map_or(0, |(_, units)| units);
    }
}

fn units(state: &State, hold: &Hold) -> u64 {
    let node = state
        .node_ix(hold.node.as_str())
        .and_then(|ix| state.node(ix));
    let unit = |slice: &Slice| {
        let gpu = node.and_then(|books| books.gpus.get(usize::from(slice.gpu)));
        gpu.map_or(GPU, |gpu| weight(slice, state.boards().board(gpu.board)))
    };
    hold.slices.iter().map(|slice| u64::from(unit(slice))).sum()
}
