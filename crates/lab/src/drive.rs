//! The control plane driven by hand: what is decided happens at once, and prices are refined when
//! it asks for them. Notes how long decisions took.

use std::time::{Duration, Instant};

use cleave_control::{Control, Deed, Input, Request};
use cleave_engine::planner::{Planner, Question};
use cleave_engine::state::{NoSink, State};
use cleave_model::action::{Subject, What};
use cleave_model::event::Event;
use cleave_model::lease::Hold;
use cleave_model::message::Order;
use cleave_model::observation::{Exit, WorkerReport, WorkerState};
use cleave_model::plan::Budget;
use cleave_model::workload::Workload;
use cleave_model::{Millis, Name, WorkerId};

/// A control plane with hands that obey at once.
pub struct Drive<P: Planner> {
    control: Control<P>,
}

/// What became of work that was submitted.
#[derive(Debug, Default)]
pub struct Decided {
    /// The places found: worker, attempt, hold.
    pub places: Vec<(WorkerId, u32, Hold)>,
    /// From the submission to what was told to the hands, recorded and folded; without the time of
    /// refinements, which run beside the loop.
    pub took: Duration,
    /// Whether new prices took effect with it.
    pub repriced: bool,
    /// Time of the refinement that it was due to ask for.
    pub refining: Option<Duration>,
}

impl<P: Planner> Drive<P> {
    /// Begins with `facts`.
    pub fn new(planner: P, facts: Vec<Event>) -> Self {
        let control = Control::new(planner, Budget::UNBOUNDED, facts);
        let mut drive = Self { control };
        drive.settle(0);
        drive
    }

    /// The state as it is now.
    pub fn state(&self) -> &State {
        self.control.state()
    }

    /// Submits the work, decides, and starts what is placed.
    pub fn submit(&mut self, now: Millis, work: Vec<Workload>) -> Decided {
        for work in work {
            self.request(Request::Submit(work));
        }
        self.settle(now)
    }

    /// Takes work back.
    pub fn cancel(&mut self, now: Millis, name: Name) {
        self.request(Request::Cancel(name));
        self.settle(now);
    }

    /// Attempts end, their work done; then decides for what waits.
    pub fn end(&mut self, now: Millis, attempts: Vec<(WorkerId, u32)>) -> Decided {
        for (worker, attempt) in attempts {
            self.see(worker, attempt, WorkerState::Freed(Exit::Done));
        }
        self.settle(now)
    }

    fn request(&mut self, request: Request) {
        self.control.input(Input::Request { from: 0, request });
    }

    fn see(&mut self, worker: WorkerId, attempt: u32, state: WorkerState) {
        self.control.input(Input::Attempt(WorkerReport {
            worker,
            attempt,
            state,
        }));
    }

    /// Closes batches and carries effects out until nothing is left to be done.
    fn settle(&mut self, now: Millis) -> Decided {
        let mut decided = Decided::default();
        loop {
            let began = Instant::now();
            let output = self.control.close(now, &mut NoSink);
            let effects = self.control.durable(self.control.state().batch());
            decided.took += began.elapsed();
            for event in output.records.iter().flat_map(|batch| &batch.events) {
                match event {
                    Event::Decided(plan) => {
                        decided
                            .places
                            .extend(plan.actions.iter().filter_map(|action| {
                                match (&action.name.subject, &action.what) {
                                    (Subject::Worker(id), What::Place(hold)) => {
                                        Some((id.clone(), action.name.attempt, hold.clone()))
                                    }
                                    _ => None,
                                }
                            }))
                    }
                    Event::Priced(_) => decided.repriced = true,
                    _ => {}
                }
            }
            let mut busy = false;
            for effect in effects {
                match effect.what {
                    Deed::Send { message, .. } => match message.order {
                        Order::Place {
                            worker, attempt, ..
                        } => {
                            self.see(worker, attempt, WorkerState::Running);
                            busy = true;
                        }
                        Order::Evict {
                            worker, attempt, ..
                        } => {
                            self.see(worker, attempt, WorkerState::Freed(Exit::Evicted));
                            busy = true;
                        }
                        Order::Hello | Order::Forget { .. } => {}
                    },
                    Deed::Refine { asked_at } => {
                        busy |= self.control.blocked_on_refine() == Some(asked_at);
                        let began = Instant::now();
                        let prices = Question::of(self.control.state()).answer();
                        decided.refining = Some(began.elapsed());
                        self.control.input(Input::Refined { asked_at, prices });
                    }
                    Deed::Answer { reply, .. } => {
                        reply.expect("a study asks for what the control plane takes");
                    }
                }
            }
            if !busy {
                return decided;
            }
        }
    }
}
