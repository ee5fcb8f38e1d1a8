//! The hands' procedures: which run, on which GPU, and what comes of them.

use super::{Effect, Hands};
use crate::{
    gpu::{Answer, Error, Reply},
    procedure::{Books, Goal, Holder, Mark, Next, Procedure},
    table::{Attempt, AttemptId, Cut, Record, Stage},
};
use cleave_model::{Millis, action::Failure, board::Instance, lease::Slice};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A procedure on a GPU: for an attempt, or the recovery of the GPU itself.
pub(super) type JobId = (u8, Option<AttemptId>);

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub procedure: Procedure,
    pub not_before: Millis,
    pub done: bool,
}

impl Hands {
    /// Sets up what a stage takes on the GPUs, in place of what the stage before took.
    pub(super) fn plan(&mut self, id: &AttemptId, stage: Stage) {
        self.jobs.retain(|(_, of), _| of.as_ref() != Some(id));
        if !stage.has_process() {
            self.kill_at.remove(id);
        }
        let mut gpus = BTreeMap::<u8, Vec<_>>::new();
        for slice in &self.table.attempts[id].hold.slices {
            gpus.entry(slice.gpu).or_default().extend(slice.instance);
        }
        for (gpu, instances) in gpus {
            let goal = match stage {
                Stage::Preparing => Goal::Prepare(instances),
                Stage::Ended(_) | Stage::Failing(_) => Goal::Unprepare(instances),
                _ => continue,
            };
            self.begin((gpu, Some(id.clone())), goal, 0);
        }
    }

    pub(super) fn recover(&mut self, gpu: u8, not_before: Millis) {
        self.begin(
            (gpu, None),
            Goal::Recover {
                adopt: self.settings.adopt,
            },
            not_before,
        );
    }

    fn begin(&mut self, id: JobId, goal: Goal, not_before: Millis) {
        let procedure = Procedure::new(goal, self.settings.patience);
        self.jobs.insert(
            id,
            Job {
                procedure,
                not_before,
                done: false,
            },
        );
    }

    pub(super) fn idle(&self, gpu: u8) -> bool {
        self.lanes
            .get(usize::from(gpu))
            .is_some_and(Option::is_none)
    }

    pub(super) fn replied(&mut self, now: Millis, gpu: u8, reply: Reply) {
        let Some(id) = self.lanes.get_mut(usize::from(gpu)).and_then(Option::take) else {
            return;
        };
        let sick = match &reply {
            Err(Error::Lost) => true,
            Ok(Answer::State(state)) => state.mode != state.pending && !state.can_reset,
            _ => self.sick.contains(&gpu),
        };
        self.news |= sick != self.sick.contains(&gpu);
        if sick {
            self.sick.insert(gpu);
            // Somebody must find out when it is well again.
            if self.jobs.get(&(gpu, None)).is_none_or(|job| job.done) {
                self.recover(gpu, now.saturating_add(self.settings.patience.longest_ms));
            }
        } else {
            self.sick.remove(&gpu);
        }
        self.run(now, &id, Some(reply));
    }

    /// Goes on with a job until it waits for something.
    pub(super) fn run(&mut self, now: Millis, id: &JobId, mut reply: Option<Reply>) {
        let gpu = id.0;
        let board = Arc::clone(&self.settings.boards[usize::from(gpu)]);
        loop {
            let books = Books {
                board: &board,
                cuts: self.cuts(gpu),
            };
            let Some(job) = self.jobs.get_mut(id).filter(|job| !job.done) else {
                return;
            };
            match job.procedure.step(&books, reply.take()) {
                Next::Call(call) => {
                    self.lanes[usize::from(gpu)] = Some(id.clone());
                    self.out.push(Effect::Call(gpu, call));
                    return;
                }
                Next::Record(mark) => {
                    let (start, cut) = match mark {
                        Mark::Cutting(instance) => (
                            instance.start,
                            Some(Cut {
                                instance,
                                uuid: None,
                            }),
                        ),
                        Mark::Cut(instance, uuid) => (
                            instance.start,
                            Some(Cut {
                                instance,
                                uuid: Some(uuid),
                            }),
                        ),
                        Mark::Gone(instance) => (instance.start, None),
                    };
                    self.persist(Record::Cut { gpu, start, cut });
                }
                Next::Wait(pause_ms) => {
                    job.not_before = now.saturating_add(pause_ms);
                    let alarm = job.procedure.alarm();
                    self.out
                        .extend(alarm.map(|alarm| Effect::Trouble(id.1.clone(), gpu, alarm)));
                    return;
                }
                Next::Done(outcome) => {
                    job.done = true;
                    match (outcome, &id.1) {
                        (Err(trouble), Some(attempt)) => {
                            self.out.push(Effect::Trouble(id.1.clone(), gpu, trouble));
                            self.enter(attempt, Stage::Failing(Failure::Cut(gpu)));
                        }
                        (Ok(()), None) => self.end_robbed(gpu),
                        _ => {}
                    }
                    return;
                }
            }
        }
    }

    /// Our instances on a GPU, and who holds each.
    fn cuts(&self, gpu: u8) -> Vec<(Cut, Holder)> {
        let holder = |cut: &Cut| {
            let holds = |slice: &Slice| slice.gpu == gpu && slice.instance == Some(cut.instance);
            let holding = self.table.held().filter(|(_, _, slice)| holds(slice));
            let of = |of: &Attempt| {
                if of.stage.is_live() {
                    Holder::Live
                } else {
                    Holder::Ended
                }
            };
            holding
                .map(|(_, attempt, _)| of(attempt))
                .max()
                .unwrap_or(Holder::Nobody)
        };
        let cuts = self.table.cuts.range((gpu, 0)..=(gpu, u8::MAX));
        cuts.map(|(_, cut)| (cut.clone(), holder(cut))).collect()
    }

    /// After a recovery: processes whose instances are gone can't do anything any more.
    fn end_robbed(&mut self, gpu: u8) {
        let robbed = |(_, of, slice): &(&AttemptId, &Attempt, &Slice)| {
            let cut = |i: Instance| self.table.cuts.get(&(gpu, i.start));
            let gone = |i: Instance| cut(i).is_none_or(|cut| cut.instance != i);
            of.stage.has_process() && slice.gpu == gpu && slice.instance.is_some_and(gone)
        };
        let ids: BTreeSet<_> = self
            .table
            .held()
            .filter(robbed)
            .map(|(id, _, _)| id.clone())
            .collect();
        self.out.extend(ids.into_iter().map(Effect::Kill));
    }
}
