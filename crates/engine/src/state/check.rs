//! The rules that never break, checked on a state from first principles.

use super::{State, meter};
use crate::inventory::{NodeBooks, Use};
use cleave_model::{GPU, Name, WorkerId, lease::Lease};
use std::{collections::BTreeMap, fmt};

/// A rule found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Slices overlap, or a total of the node is exceeded, without being shown as contested.
    Overlap(Name),
    /// What the books say is left differs from what the leases leave.
    Books(Name),
    /// The parts of a GPU do not sum to a whole one.
    Sum(Name, usize),
    /// A lease refers to a node that does not list it, or the other way round.
    Listing(WorkerId),
    /// A worker is live in an attempt that is not its latest.
    Attempt(WorkerId),
    /// An open action refers to nothing.
    Action(String),
    /// What is derived for the order of waiting work differs from the work.
    Waiting(Name),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(node) => write!(f, "slices or totals overlap on {node}"),
            Self::Books(node) => write!(f, "the books of {node} differ from its leases"),
            Self::Sum(node, gpu) => write!(f, "the parts of {node}/{gpu} do not sum to one GPU"),
            Self::Listing(worker) => write!(f, "{worker} and its node disagree"),
            Self::Attempt(worker) => write!(f, "{worker} holds a stale attempt"),
            Self::Action(name) => write!(f, "open action `{name}` refers to nothing"),
            Self::Waiting(name) => write!(f, "{name} is out of its place among the waiting"),
        }
    }
}

impl std::error::Error for Broken {}

pub(super) fn rules(state: &State) -> Result<(), Broken> {
    let mut by_node: BTreeMap<&Name, Vec<&Lease>> = BTreeMap::new();
    for (name, work) in &state.work {
        for worker in &work.workers {
            let Some(lease) = worker.lease() else {
                continue;
            };
            if lease.attempt != worker.past.attempt {
                return Err(Broken::Attempt(lease.worker.clone()));
            }
            by_node.entry(&lease.hold.node).or_default().push(lease);
        }
        let waits = state.waiting.contains(&work.turn());
        if waits != (!work.cancelled && work.missing() > 0) {
            return Err(Broken::Waiting(name.clone()));
        }
        if state.ailing.contains_key(name) != work.is_ailing() {
            return Err(Broken::Waiting(name.clone()));
        }
    }
    if state.waiting.len() > state.work.len() {
        return Err(Broken::Waiting(
            state.waiting.iter().next().expect("not empty").2.clone(),
        ));
    }
    for &ix in state.by_name.values() {
        let slot = state.slot(ix);
        let books = &slot.books;
        let leases = by_node.remove(books.name()).unwrap_or_default();
        if let Some(stray) = leases
            .iter()
            .find(|lease| !slot.leases.contains(&lease.worker))
        {
            return Err(Broken::Listing(stray.worker.clone()));
        }
        if slot.leases.len() != leases.len() {
            return Err(Broken::Listing(
                slot.leases.first().expect("more are listed").clone(),
            ));
        }
        let mut fresh = books.emptied();
        let settled = leases.iter().filter(|lease| {
            let worker = &state.work[&lease.worker.workload].workers[lease.worker.index as usize];
            !worker.is_contested()
        });
        for lease in settled {
            if fresh.take(&lease.hold, &state.boards).is_err() {
                return Err(Broken::Overlap(books.name().clone()));
            }
        }
        let left = |b: &NodeBooks| {
            let gpus: Vec<Use> = b.gpus.iter().map(|gpu| gpu.used.clone()).collect();
            (b.cpu_milli, b.memory_bytes, b.pods, gpus)
        };
        if left(&fresh) != left(books) {
            return Err(Broken::Books(books.name().clone()));
        }
        for gpu in 0..slot.gpus.len() {
            let sum: u32 = meter::parts(state, ix, gpu)
                .iter()
                .map(|(.., units)| units)
                .sum();
            if sum != GPU {
                return Err(Broken::Sum(books.name().clone(), gpu));
            }
        }
    }
    for open in state.open.values() {
        let cleave_model::action::Subject::Worker(worker) = &open.action.name.subject else {
            continue;
        };
        if state
            .lease(worker)
            .is_none_or(|lease| lease.attempt != open.action.name.attempt)
        {
            return Err(Broken::Action(open.action.name.to_string()));
        }
    }
    Ok(())
}
