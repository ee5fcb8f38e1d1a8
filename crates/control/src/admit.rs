//! Which requests become facts, and what the others are told.

use crate::input::{Refusal, Request};
use cleave_engine::state::State;
use cleave_model::{Name, board::Board, event::Event, queue::Queue, workload::Workload};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It becomes a fact.
    New,
    /// It is already so.
    Known,
    /// It can't be.
    Refused(Refusal),
}

/// Rules on requests that arrive together, each in the light of those that are folded before it.
pub fn rule<'a>(state: &State, requests: impl Iterator<Item = &'a Request> + Clone) -> Vec<Ruling> {
    let mut fresh = Fresh::default();
    for (at, request) in requests.clone().enumerate() {
        fresh
            .last
            .extend(object(request).map(|object| (object, at)));
        match request {
            Request::Queue(queue) => {
                fresh.queues.insert(&queue.name, queue);
            }
            Request::Node(node) => {
                fresh.nodes.insert(&node.name, node.gpus.len());
            }
            _ => {}
        }
    }
    // Work is ruled on as it comes, so that of two submissions of one name the first is taken;
    // a cancellation that arrived with its submission is folded after it.
    let mut rulings: Vec<Ruling> = requests
        .clone()
        .enumerate()
        .map(|(at, r)| fresh.rule(state, at, r))
        .collect();
    for (request, ruling) in requests.zip(&mut rulings) {
        if let Request::Cancel(name) = request {
            *ruling = match state.workload(name.as_str()) {
                Some(work) if work.cancelled => Ruling::Known,
                None if !fresh.work.contains_key(name) => {
                    Ruling::Refused(Refusal::NoWorkload(name.clone()))
                }
                _ => Ruling::New,
            };
        }
    }
    rulings
}

/// The fact that a request becomes.
pub fn fact(request: Request) -> Event {
    match request {
        Request::Policy(policy) => Event::Policy(policy),
        Request::Board(board) => Event::Board(board),
        Request::Queue(queue) => Event::Queue(queue),
        Request::Node(node) => Event::Node(node),
        Request::Gpu(node, gpu, sick) => Event::GpuSick(node, gpu, sick),
        Request::NodeHealth(name, health) => Event::NodeHealth(name, health),
        Request::NodeGone(name) => Event::NodeGone(name),
        Request::Submit(work) => Event::Submit(work),
        Request::Cancel(name) => Event::Cancel(name),
        Request::Prior(mix) => Event::Prior(mix),
    }
}

/// What the same batch brings.
#[derive(Default)]
struct Fresh<'a> {
    queues: BTreeMap<&'a Name, &'a Queue>,
    nodes: BTreeMap<&'a Name, usize>,
    /// Where each object was told of last.
    last: BTreeMap<Object<'a>, usize>,
    work: BTreeMap<&'a Name, &'a Workload>,
}

/// What a request tells the whole state of; of several such only the last counts.
type Object<'a> = (Kind, &'a str, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Policy,
    Prior,
    Board,
    Queue,
    Node,
    Gone,
    Gpu,
    Health,
}

fn object(request: &Request) -> Option<Object<'_>> {
    Some(match request {
        Request::Policy(_) => (Kind::Policy, "", 0),
        Request::Prior(_) => (Kind::Prior, "", 0),
        Request::Board(board) => (Kind::Board, board.name.as_ref(), 0),
        Request::Queue(queue) => (Kind::Queue, queue.name.as_str(), 0),
        Request::Node(node) => (Kind::Node, node.name.as_str(), 0),
        Request::NodeGone(name) => (Kind::Gone, name.as_str(), 0),
        Request::Gpu(name, gpu, _) => (Kind::Gpu, name.as_str(), *gpu),
        Request::NodeHealth(name, _) => (Kind::Health, name.as_str(), 0),
        Request::Submit(_) | Request::Cancel(_) => return None,
    })
}

impl<'a> Fresh<'a> {
    fn rule(&mut self, state: &State, at: usize, request: &'a Request) -> Ruling {
        let known = |is: bool| if is { Ruling::Known } else { Ruling::New };
        if object(request).is_some_and(|object| self.last[&object] > at) {
            return Ruling::Known;
        }
        match request {
            Request::Policy(policy) => known(policy == state.policy()),
            Request::Prior(mix) => known(state.prior().is_some_and(|prior| prior[..] == mix[..])),
            Request::Board(board) => match Board::new(board.clone()) {
                Ok(_) => Ruling::New,
                Err(why) => Ruling::Refused(Refusal::BadBoard(why.to_string())),
            },
            Request::Queue(queue) => self.rule_queue(state, queue),
            Request::Node(node) => {
                known(match self.last.get(&(Kind::Gone, node.name.as_str(), 0)) {
                    // What went after it came is not there.
                    Some(&gone) => at < gone,
                    None => book(state, &node.name).is_some_and(|books| *books.node == *node),
                })
            }
            Request::Gpu(name, gpu, sick) => {
                let ix = usize::from(*gpu);
                let books = book(state, name);
                let gpus = self.nodes.get(name).copied();
                match gpus.or(books.map(|books| books.gpus.len())) {
                    None => Ruling::Refused(Refusal::NoNode(name.clone())),
                    Some(gpus) if ix >= gpus => Ruling::Refused(Refusal::NoGpu(name.clone(), *gpu)),
                    Some(_) => known(books.is_some_and(|books| {
                        books.gpus.get(ix).is_some_and(|gpu| gpu.sick == *sick)
                    })),
                }
            }
            Request::NodeHealth(name, health) => match book(state, name) {
                Some(books) => known(books.health == *health),
                None if self.nodes.contains_key(name) => Ruling::New,
                None => Ruling::Refused(Refusal::NoNode(name.clone())),
            },
            Request::NodeGone(name) => match book(state, name) {
                Some(_) => Ruling::New,
                None if self.nodes.contains_key(name) => Ruling::Known,
                None => Ruling::Refused(Refusal::NoNode(name.clone())),
            },
            Request::Submit(work) => self.rule_work(state, work),
            Request::Cancel(_) => Ruling::New,
        }
    }

    /// A queue whose parents are there and do not lead back to it.
    fn rule_queue(&self, state: &State, queue: &'a Queue) -> Ruling {
        if state.queues().get(&queue.name) == Some(queue) {
            return Ruling::Known;
        }
        let mut above = queue.parent.as_ref();
        let mut steps = 0;
        while let Some(name) = above {
            let fresh = self.queues.get(name).copied();
            let Some(parent) = fresh.or_else(|| state.queues().get(name)) else {
                return Ruling::Refused(Refusal::NoQueue(name.clone()));
            };
            steps += 1;
            if *name == queue.name || steps > self.queues.len() + state.queues().len() {
                return Ruling::Refused(Refusal::QueueLoop(queue.name.clone()));
            }
            above = parent.parent.as_ref();
        }
        Ruling::New
    }

    fn rule_work(&mut self, state: &State, work: &'a Workload) -> Ruling {
        let old = state.workload(work.name.as_str()).map(|old| &*old.spec);
        if let Some(old) = old.or(self.work.get(&work.name).copied()) {
            // The answer may have been lost: asking again for the same is no conflict.
            return if old == work {
                Ruling::Known
            } else {
                Ruling::Refused(Refusal::NameTaken(work.name.clone()))
            };
        }
        let queue = &work.queue;
        if !state.queues().contains_key(queue) && !self.queues.contains_key(queue) {
            return Ruling::Refused(Refusal::NoQueue(queue.clone()));
        }
        if let Err(refusal) = check(work) {
            return Ruling::Refused(refusal);
        }
        self.work.insert(&work.name, work);
        Ruling::New
    }
}

fn book<'a>(state: &'a State, name: &Name) -> Option<&'a cleave_engine::inventory::NodeBooks> {
    state.node(state.node_ix(name.as_str())?)
}

/// What a workload must be by itself.
fn check(work: &Workload) -> Result<(), Refusal> {
    let name = || work.name.clone();
    if work.groups.is_empty() || work.groups.iter().any(|group| group.workers == 0) {
        return Err(Refusal::NoWorkers(name()));
    }
    let workers: u64 = work
        .groups
        .iter()
        .map(|group| u64::from(group.workers))
        .sum();
    if workers > MOST_WORKERS {
        return Err(Refusal::TooManyWorkers(name()));
    }
    let mut seen = BTreeSet::new();
    for group in &work.groups {
        if group.min == 0 || group.min > group.workers {
            return Err(Refusal::BadMinimum(name(), group.name.clone()));
        }
        if !seen.insert(&group.name) {
            return Err(Refusal::GroupTwice(name(), group.name.clone()));
        }
    }
    Ok(())
}

/// A bound against slips of the keyboard: no cluster holds a gang of this many workers.
const MOST_WORKERS: u64 = 1 << 20;
