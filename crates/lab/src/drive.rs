//! A state and a planner driven by hand: what is decided happens at once, and prices are refined
//! when the policy says.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cleave_engine::planner::{Planner, Question};
use cleave_engine::state::{NoSink, State};
use cleave_model::action::{Subject, What};
use cleave_model::event::{Batch, Event};
use cleave_model::lease::Hold;
use cleave_model::plan::Budget;
use cleave_model::policy::Mix;
use cleave_model::prices::Prices;
use cleave_model::workload::Workload;
use cleave_model::{Millis, WorkerId};

/// A state, a planner over it and refinements under way.
pub struct Drive<P: Planner> {
    state: State,
    planner: P,
    scratch: P::Scratch,
    number: u64,
    /// Answers, each with the count of arrivals beyond which it takes effect.
    pending: VecDeque<(u64, Prices)>,
    rounds: u64,
}

/// What became of work that was submitted.
#[derive(Debug)]
pub struct Decided {
    /// The places found: worker, attempt, hold.
    pub places: Vec<(WorkerId, u32, Hold)>,
    /// From the submission to the decision, folded.
    pub took: Duration,
    /// Whether new prices took effect with it.
    pub repriced: bool,
    /// Time of the refinement that it was due to ask for, which is not part of `took`: it runs
    /// beside the loop.
    pub refining: Option<Duration>,
}

impl<P: Planner> Drive<P> {
    /// Folds `facts` into a new state. Where they give the mix to expect, and the policy both
    /// prices and trusts it, the first prices are there from the start.
    pub fn new(planner: P, facts: Vec<Event>) -> Self {
        let mut drive = Self {
            state: State::new(),
            planner,
            scratch: P::Scratch::default(),
            number: 1,
            pending: VecDeque::new(),
            rounds: 0,
        };
        drive.fold(0, facts);
        let policy = drive.state.policy();
        let known = policy.mix == Mix::Prior && drive.state.prior().is_some();
        if policy.refine_every > 0 && known {
            drive.refine();
        }
        drive
    }

    /// The state as it is now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Folds facts in as one batch.
    pub fn fold(&mut self, now: Millis, events: Vec<Event>) {
        let batch = Batch {
            number: self.number,
            now,
            events,
        };
        self.state.apply(&batch, &mut NoSink);
        self.number += 1;
    }

    /// Prices what the state holds now, at once.
    pub fn refine(&mut self) {
        let prices = Question::of(&self.state).answer();
        self.fold(self.state.now(), vec![Event::Priced(prices)]);
    }

    /// Submits the work, decides, and starts what is placed.
    pub fn submit(&mut self, now: Millis, work: Vec<Workload>) -> Decided {
        let arriving: u64 = work.iter().map(|work| u64::from(work.workers())).sum();
        let began = Instant::now();
        let mut facts = Vec::with_capacity(work.len() + 1);
        let beyond = self.state.arrivals() + arriving;
        let due = self
            .pending
            .iter()
            .take_while(|(due, _)| *due < beyond)
            .count();
        facts.extend(
            self.pending
                .drain(..due)
                .map(|(_, prices)| Event::Priced(prices)),
        );
        let repriced = !facts.is_empty();
        facts.extend(work.into_iter().map(Event::Submit));
        self.fold(now, facts);
        let places = self.decide(now);
        let took = began.elapsed();
        Decided {
            places,
            took,
            repriced,
            refining: self.ask(),
        }
    }

    /// Plans without a bound and lets it happen: worker, attempt and hold of every place.
    pub fn decide(&mut self, now: Millis) -> Vec<(WorkerId, u32, Hold)> {
        let plan = self
            .planner
            .plan(&self.state, &mut self.scratch, now, Budget::UNBOUNDED);
        let placed = plan.actions.iter().filter_map(|action| {
            let (Subject::Worker(id), What::Place(hold)) = (&action.name.subject, &action.what)
            else {
                return None;
            };
            Some((id.clone(), action.name.attempt, hold.clone()))
        });
        let places: Vec<_> = placed.collect();
        let started = (places.iter()).map(|(id, attempt, _)| Event::Started(id.clone(), *attempt));
        let started: Vec<_> = started.collect();
        let facts = std::iter::once(Event::Decided(plan)).chain(started);
        self.fold(now, facts.collect());
        places
    }

    /// Asks for a refinement where another `refine_every` arrivals are complete.
    fn ask(&mut self) -> Option<Duration> {
        let (arrivals, policy) = (self.state.arrivals(), self.state.policy());
        let rounds = arrivals.checked_div(policy.refine_every)?;
        let due = arrivals + policy.refine_lag;
        let news = rounds > self.rounds;
        self.rounds = rounds;
        news.then(|| {
            let began = Instant::now();
            let prices = Question::of(&self.state).answer();
            self.pending.push_back((due, prices));
            began.elapsed()
        })
    }
}
