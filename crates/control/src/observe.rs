//! What observations mean in the light of what is believed: only differences become facts.

use crate::dispatch::Flights;
use cleave_engine::state::State;
use cleave_model::{
    Millis, Name, WorkerId,
    action::Failure,
    event::Event,
    lease::{Lease, Phase},
    message::Order,
    observation::{Exit, MessageNo, NodeReport, WorkerReport, WorkerState},
};
use std::collections::BTreeMap;

/// What is remembered of the talk with the hands of each node. All of it may be forgotten.
#[derive(Clone, Debug, Default)]
pub struct Links(BTreeMap<Name, Link>);

/// The talk with the hands of one node.
#[derive(Clone, Debug, Default)]
struct Link {
    /// When Hello was last said.
    hello: Option<Millis>,
    /// The last message before the first Hello: a report that reflects none after it is of
    /// a node that had this name before.
    before: MessageNo,
    /// Since when the node has been heard in this start of the control plane.
    heard_since: Option<Millis>,
    /// Sequence of the last report that counted.
    seq: (u64, u64),
    /// Attempts were hinted at that only reports which reflect this message must list.
    floor: MessageNo,
    /// GPUs that the last report called sick.
    sick: Vec<u8>,
    /// What was last said about attempts that the state does not hold, and when.
    tidied: BTreeMap<(WorkerId, u32), (Tidy, Millis)>,
}

/// What is said about an attempt that the state does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tidy {
    Leave,
    Forget,
}

/// What follows from observations: facts to be folded, and orders that need no fact because
/// they may be lost: the next report asks for them again.
#[derive(Debug, Default)]
pub struct Seen {
    /// Differences from the state.
    pub events: Vec<Event>,
    /// What to tell whom.
    pub orders: Vec<(Name, Order)>,
}

impl Links {
    /// Since when a node has been heard in this start of the control plane.
    pub fn heard_since(&self, node: &Name) -> Option<Millis> {
        self.0.get(node)?.heard_since
    }

    /// Forgets a node that is gone. One that comes under its name is another.
    pub fn part(&mut self, node: &Name) {
        self.0.remove(node);
    }

    /// Says Hello to the nodes that have not heard it, after the message `last`.
    pub fn greet(&mut self, state: &State, last: MessageNo, now: Millis, seen: &mut Seen) {
        for (_, books) in state.nodes() {
            let link = self.0.entry(books.name().clone()).or_default();
            if link.hello.is_none() {
                link.hello = Some(now);
                link.before = last;
                seen.orders.push((books.name().clone(), Order::Hello));
            }
        }
    }

    /// What a node's report says that is not known yet, to the control plane of this
    /// `incarnation`.
    pub fn report(
        &mut self,
        state: &State,
        flights: &mut Flights,
        report: &NodeReport,
        incarnation: u64,
        now: Millis,
        seen: &mut Seen,
    ) {
        let Some(ix) = state.node_ix(report.node.as_str()) else {
            return;
        };
        let patience = state.policy().resend_after_ms;
        let link = self.0.entry(report.node.clone()).or_default();
        if report.heard.incarnation != incarnation || report.heard <= link.before {
            // It does not answer to this start. If Hello was lost, say it again.
            if link
                .hello
                .is_none_or(|hello| now >= hello.saturating_add(patience))
            {
                link.hello = Some(now);
                seen.orders.push((report.node.clone(), Order::Hello));
            }
            return;
        }
        if link.heard_since.is_some() && report.seq <= link.seq {
            return;
        }
        link.seq = report.seq;
        link.heard_since.get_or_insert(now);

        let listed: BTreeMap<(&WorkerId, u32), WorkerState> = report
            .workers
            .iter()
            .map(|w| ((&w.worker, w.attempt), w.state))
            .collect();
        // Nothing was said of a promise yet: what is listed under its name is something older.
        let told = |lease: &&Lease| lease.phase != Phase::Promised;
        for lease in state.leases_on(report.node.as_str()).filter(told) {
            match listed.get(&(&lease.worker, lease.attempt)) {
                Some(&here) => {
                    flights.listed(state, lease, here, report.heard);
                    seen.events.extend(advance(lease, here));
                }
                None => seen
                    .events
                    .extend(absent(state, flights, lease, report.heard, link.floor)),
            }
        }

        link.tidied
            .retain(|(worker, attempt), _| listed.contains_key(&(worker, *attempt)));
        for (&(worker, attempt), &here) in &listed {
            let lease = state
                .lease(worker)
                .filter(told)
                .filter(|lease| lease.attempt == attempt && lease.hold.node == report.node);
            let Some(tidy) = Tidy::of(here, lease.is_some()) else {
                continue;
            };
            let key = (worker.clone(), attempt);
            let due = link
                .tidied
                .get(&key)
                .is_none_or(|(said, at)| *said != tidy || now >= at.saturating_add(patience));
            if due {
                link.tidied.insert(key, (tidy, now));
                let order = tidy.order(worker.clone(), attempt, state.policy().grace_ms);
                seen.orders.push((report.node.clone(), order));
            }
        }

        let gpus = state
            .node(ix)
            .map(|books| books.gpus.as_slice())
            .unwrap_or_default();
        for (gpu, entry) in (0u8..).zip(gpus) {
            let (was, is) = (link.sick.contains(&gpu), report.sick.contains(&gpu));
            // What somebody else withheld is not given back because the hands see nothing.
            if is != entry.sick && (is || was) {
                seen.events
                    .push(Event::GpuSick(report.node.clone(), gpu, is));
            }
        }
        link.sick.clone_from(&report.sick);
    }

    /// What the sight of one attempt says that is not known yet.
    pub fn attempt(
        &mut self,
        state: &State,
        flights: &mut Flights,
        sight: &WorkerReport,
        now: Millis,
        seen: &mut Seen,
    ) {
        let lease = state
            .lease(&sight.worker)
            .filter(|lease| lease.attempt == sight.attempt);
        let Some(lease) = lease else { return };
        let link = self.0.entry(lease.hold.node.clone()).or_default();
        link.heard_since.get_or_insert(now);
        if let Some(message) = flights.placed(state, lease) {
            link.floor = link.floor.max(message);
        }
        let all = MessageNo {
            incarnation: u64::MAX,
            number: u64::MAX,
        };
        flights.listed(state, lease, sight.state, all);
        seen.events.extend(advance(lease, sight.state));
    }
}

impl Tidy {
    fn of(here: WorkerState, held: bool) -> Option<Self> {
        match here {
            WorkerState::Freed(_) | WorkerState::Failed(_) => Some(Self::Forget),
            WorkerState::Ended(_) => None,
            WorkerState::Preparing | WorkerState::Running | WorkerState::Stopping => {
                (!held).then_some(Self::Leave)
            }
        }
    }

    fn order(self, worker: WorkerId, attempt: u32, grace_ms: Millis) -> Order {
        match self {
            Self::Leave => Order::Evict {
                worker,
                attempt,
                grace_ms,
            },
            Self::Forget => Order::Forget { worker, attempt },
        }
    }
}

/// The fact by which the lease comes to where the attempt is seen.
fn advance(lease: &Lease, here: WorkerState) -> Option<Event> {
    use Phase::{Draining, Preparing, Promised, Running};
    let (worker, attempt) = (lease.worker.clone(), lease.attempt);
    match (here, lease.phase) {
        (_, Promised) | (WorkerState::Preparing, _) => None,
        (WorkerState::Running | WorkerState::Stopping, Preparing) => {
            Some(Event::Started(worker, attempt))
        }
        (WorkerState::Running | WorkerState::Stopping, Running | Draining) => None,
        (WorkerState::Ended(exit), Preparing | Running) => {
            Some(Event::Ended(worker, attempt, exit))
        }
        (WorkerState::Ended(_), Draining) => None,
        (WorkerState::Freed(exit), _) => Some(Event::Freed(worker, attempt, exit)),
        (WorkerState::Failed(why), _) => Some(Event::Failed(worker, attempt, why)),
    }
}

/// What it means that a node which heard `heard` does not list an attempt that holds a lease:
/// nothing, if the message may still be under way; otherwise it is not there for good.
fn absent(
    state: &State,
    flights: &Flights,
    lease: &Lease,
    heard: MessageNo,
    floor: MessageNo,
) -> Option<Event> {
    let (worker, attempt) = (lease.worker.clone(), lease.attempt);
    if let Some(message) = flights.placed(state, lease) {
        return (message <= heard).then_some(Event::Failed(worker, attempt, Failure::Stale));
    }
    let (needed, exit) = match flights.evicted(state, lease) {
        Some(message) => (message, Exit::Evicted),
        None => (floor, Exit::Lost),
    };
    (needed <= heard).then_some(Event::Freed(worker, attempt, exit))
}
