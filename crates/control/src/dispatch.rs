//! Which open actions are told to their hands, told again, or overdue.

use crate::observe::Links;
use cleave_engine::state::{Open, State};
use cleave_model::{
    Millis, Name,
    action::{ActionName, Life, Subject, Verb, What},
    event::Event,
    lease::{Lease, Phase},
    message::Order,
    observation::{MessageNo, WorkerState},
};
use std::collections::BTreeMap;

/// What is remembered of actions under way. All of it may be forgotten.
#[derive(Clone, Debug, Default)]
pub struct Flights(BTreeMap<ActionName, Flight>);

/// One action under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent_at: Millis,
    /// How often it was told again; the wait doubles with each.
    again: u32,
    /// An observation reflects it.
    heard: bool,
    /// It was sent by an earlier start: its deadline counts from the node's next observation.
    inherited: bool,
}

/// The wait before telling again stops doubling after so many times.
const DOUBLINGS: u32 = 6;

impl Flights {
    /// Takes over what an earlier start of the control plane sent.
    pub fn inherit(&mut self, state: &State, now: Millis) {
        for open in state
            .open_actions()
            .filter(|open| open.life != Life::Proposed)
        {
            let flight = Flight {
                sent_at: now,
                again: 0,
                heard: false,
                inherited: true,
            };
            self.0.insert(open.action.name.clone(), flight);
        }
    }

    /// The message by which the open placement of a lease was told.
    pub fn placed(&self, state: &State, lease: &Lease) -> Option<MessageNo> {
        self.message(state, lease, Verb::Place)
    }

    /// The message by which the open eviction of a lease was told.
    pub fn evicted(&self, state: &State, lease: &Lease) -> Option<MessageNo> {
        self.message(state, lease, Verb::Evict)
    }

    fn message(&self, state: &State, lease: &Lease, verb: Verb) -> Option<MessageNo> {
        let names = self.0.range(of(lease, verb, 0)..=of(lease, verb, u32::MAX));
        names
            .filter_map(|(name, _)| state.open(name)?.message)
            .max()
    }

    /// An observation that reflects `heard` lists the attempt of a lease as `here`.
    pub fn listed(&mut self, state: &State, lease: &Lease, here: WorkerState, heard: MessageNo) {
        let names = of(lease, Verb::Place, 0)..=of(lease, Verb::Evict, u32::MAX);
        for (name, flight) in self.0.range_mut(names) {
            let told = state.open(name).and_then(|open| open.message);
            let reached = match (name.verb, here) {
                (Verb::Place, _) => true,
                (Verb::Evict, WorkerState::Preparing | WorkerState::Running) => false,
                (Verb::Evict, _) => true,
            };
            flight.heard = reached && told.is_some_and(|message| message <= heard);
        }
    }

    /// Actions whose deadline has passed.
    pub fn overdue(&self, state: &State, links: &Links, now: Millis) -> Vec<Event> {
        let sent = self.sent(state).filter(|(open, _)| open.life == Life::Sent);
        sent.filter(|(open, flight)| {
            flight
                .deadline(state, links, open)
                .is_some_and(|d| d <= now)
        })
        .map(|(open, _)| Event::Overdue(open.action.name.clone()))
        .collect()
    }

    /// Orders for actions that may be told now, or must be told again, in the order of their
    /// names.
    pub fn due(&mut self, state: &State, now: Millis) -> Vec<(ActionName, Name, Order)> {
        self.0.retain(|name, _| state.open(name).is_some());
        let mut due = Vec::new();
        for open in state.open_actions() {
            let Some(flight) = self.0.get(&open.action.name).copied() else {
                let waits = |name: &ActionName| state.open(name).is_some();
                if !open.action.after.iter().any(waits) {
                    due.extend(order(state, open));
                }
                continue;
            };
            if flight.again_at(state, open).is_some_and(|at| at <= now) {
                due.extend(order(state, open));
            }
        }
        for (name, ..) in &due {
            let old = self.0.get(name);
            let flight = Flight {
                sent_at: now,
                again: old.map_or(0, |old| old.again + 1),
                heard: false,
                inherited: old.is_some_and(|old| old.inherited),
            };
            self.0.insert(name.clone(), flight);
        }
        due
    }

    /// When something is to be told again or becomes overdue.
    pub fn wake(&self, state: &State, links: &Links) -> Option<Millis> {
        let times = self.sent(state).flat_map(|(open, flight)| {
            let judged = open.life == Life::Sent;
            let deadline = flight.deadline(state, links, open).filter(|_| judged);
            [flight.again_at(state, open), deadline]
        });
        times.flatten().min()
    }

    fn sent<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (&'a Open, &'a Flight)> {
        self.0
            .iter()
            .filter_map(|(name, flight)| Some((state.open(name)?, flight)))
    }
}

impl Flight {
    /// When to tell it again: while nothing shows that it arrived, and when it is overdue.
    fn again_at(&self, state: &State, open: &Open) -> Option<Millis> {
        if self.heard && open.life != Life::Overdue {
            return None;
        }
        let wait = state.policy().resend_after_ms.max(1);
        Some(
            self.sent_at
                .saturating_add(wait << self.again.min(DOUBLINGS)),
        )
    }

    fn deadline(&self, state: &State, links: &Links, open: &Open) -> Option<Millis> {
        let deadline = open.action.deadline;
        if !self.inherited {
            return Some(deadline);
        }
        let since = links.heard_since(node_of(state, open)?)?;
        Some(deadline.max(since.saturating_add(state.policy().start_deadline_ms)))
    }
}

fn of(lease: &Lease, verb: Verb, n: u32) -> ActionName {
    let subject = Subject::Worker(lease.worker.clone());
    ActionName {
        subject,
        attempt: lease.attempt,
        verb,
        n,
    }
}

/// The lease that an open action is about.
fn lease_of<'a>(state: &'a State, open: &Open) -> Option<&'a Lease> {
    let Subject::Worker(worker) = &open.action.name.subject else {
        return None;
    };
    state
        .lease(worker)
        .filter(|lease| lease.attempt == open.action.name.attempt)
}

fn node_of<'a>(state: &'a State, open: &Open) -> Option<&'a Name> {
    lease_of(state, open).map(|lease| &lease.hold.node)
}

/// What to tell whom, if there is anything left to tell.
fn order(state: &State, open: &Open) -> Option<(ActionName, Name, Order)> {
    let lease = lease_of(state, open)?;
    let (worker, attempt) = (lease.worker.clone(), lease.attempt);
    let order = match &open.action.what {
        What::Place(hold) => Order::Place {
            worker,
            attempt,
            hold: hold.clone(),
        },
        // It is leaving by itself.
        What::Evict { .. } if open.life == Life::Proposed && lease.phase == Phase::Draining => {
            return None;
        }
        What::Evict { grace_ms } => Order::Evict {
            worker,
            attempt,
            grace_ms: *grace_ms,
        },
    };
    Some((open.action.name.clone(), lease.hold.node.clone(), order))
}
