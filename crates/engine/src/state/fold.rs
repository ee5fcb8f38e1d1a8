//! Folding: what each fact does to the state. Frozen: journals of every release depend on it.

use super::{Device, Open, Sink, Slot, State, Work, Worker, meter};
use crate::{
    forms::ways,
    inventory::{NodeBooks, NodeIx, Use},
    price,
};
use cleave_model::{
    Millis, Name, WorkerId,
    action::{Action, ActionName, Failure, Life, Subject, Verb, What},
    event::{Event, WorkerPast},
    lease::{Lease, Phase},
    node::{Health, Node},
    observation::{Exit, MessageNo},
    plan::{Plan, VerdictChange},
    workload::Workload,
};
use std::sync::Arc;

impl State {
    pub(super) fn fold(&mut self, event: &Event, sink: &mut dyn Sink) {
        match event {
            Event::Policy(policy) => {
                self.policy = policy.clone();
                self.changes.reshape();
            }
            Event::Board(board) => {
                // A board that breaks its rules was refused at the edge; here it changes nothing.
                let _ = self.boards.insert(board.clone());
                self.asks.find_ways(&self.boards);
                self.find_prior_ways();
                self.priced = vec![Default::default(); self.boards.ids().len()];
                self.changes.reshape();
            }
            Event::Node(node) => self.node_came(node, sink),
            Event::NodeHealth(name, health) => self.set_health(name, *health, sink),
            Event::NodeGone(name) => self.node_gone(name, sink),
            Event::GpuSick(name, gpu, sick) => self.set_sick(name, *gpu, *sick, sink),
            Event::Queue(queue) => {
                self.queues.insert(queue.name.clone(), queue.clone());
                self.changes.grow();
            }
            Event::Submit(spec) => self.submit(spec),
            Event::Cancel(name) => self.cancel(name, sink),
            Event::Prior(mix) => {
                self.prior = Some(mix.as_slice().into());
                self.find_prior_ways();
            }
            Event::Decided(plan) => self.decided(plan, sink),
            Event::Priced(prices) => {
                self.mean_weight = Some(price::mean_weight(prices));
                self.prices = Some(Arc::new(prices.clone()));
            }
            Event::Sent(action, message) => self.sent(action, *message, sink),
            Event::Overdue(action) => {
                if let Some(open) = self.open.get_mut(action)
                    && open.life == Life::Sent
                {
                    open.life = Life::Overdue;
                }
            }
            Event::Started(worker, attempt) => self.started(worker, *attempt, sink),
            Event::Ended(worker, attempt, _) => {
                self.set_phase(worker, *attempt, Phase::Draining, sink)
            }
            Event::Freed(worker, attempt, exit) => {
                self.release(worker, *attempt, After::Exit(*exit), sink);
            }
            Event::Failed(worker, attempt, why) => {
                self.release(worker, *attempt, After::Failure(*why), sink);
            }
            Event::Lease(lease) => self.hold(lease.clone(), sink),
            Event::Open(action, life, message) => {
                let open = Open {
                    action: action.clone(),
                    life: life.clone(),
                    message: *message,
                };
                self.open_action(open);
            }
            Event::Verdict(change) => self.concluded(change),
            Event::Worker(id, past) => self.set_past(id, *past),
            Event::Arrivals(counts) => self.asks.set_arrivals(counts, &self.boards),
            Event::Ailing(name, since) => {
                if let Some(old) = self.ailing.get_mut(name) {
                    *old = *since;
                }
            }
            Event::CutFailures(name, gpu, count) => {
                if let Some(device) = self.device_mut(name, *gpu) {
                    device.cut_failures = *count;
                }
            }
            Event::Cursor(cursor) => self.cursor = Some(cursor.clone()),
            Event::MeteredTo(name, to) => {
                if let Some(ix) = self.node_ix(name.as_str()) {
                    let gpus = self.slot_mut(ix).gpus.iter_mut();
                    gpus.zip(to)
                        .for_each(|(device, &to)| device.metered_to = to);
                }
            }
        }
    }

    fn find_prior_ways(&mut self) {
        let prior = self.prior.iter().flat_map(|prior| prior.iter());
        let found = prior.map(|(ask, _)| ways(ask, &self.boards).unwrap_or_default());
        self.prior_ways = found.collect();
    }

    fn device_mut(&mut self, node: &Name, gpu: u8) -> Option<&mut Device> {
        let ix = self.node_ix(node.as_str())?;
        self.slot_mut(ix).gpus.get_mut(usize::from(gpu))
    }

    // Nodes.

    fn node_came(&mut self, node: &Node, sink: &mut dyn Sink) {
        let books = NodeBooks::new(Arc::new(node.clone()), &self.boards);
        let ix = match self.node_ix(node.name.as_str()) {
            Some(ix) => {
                self.meter_node(ix, sink);
                let health = self.slot(ix).books.health;
                let sick: Vec<bool> = self
                    .slot(ix)
                    .books
                    .gpus
                    .iter()
                    .map(|gpu| gpu.sick)
                    .collect();
                let now = self.now;
                let slot = self.slot_mut(ix);
                slot.books = NodeBooks { health, ..books };
                for (gpu, was_sick) in slot.books.gpus.iter_mut().zip(sick) {
                    gpu.sick |= was_sick;
                }
                let fresh = Device {
                    metered_to: now,
                    ..Device::default()
                };
                let before = slot.gpus.len() as u64;
                slot.gpus.resize(slot.books.gpus.len(), fresh);
                self.gpu_count -= before;
                self.recount(ix);
                ix
            }
            None => {
                let fresh = Device {
                    metered_to: self.now,
                    ..Device::default()
                };
                let gpus = vec![fresh; books.gpus.len()];
                let slot = Some(Slot {
                    books,
                    leases: Default::default(),
                    gpus,
                });
                let ix = match self.vacant.pop() {
                    Some(ix) => {
                        self.slots[ix.0 as usize] = slot;
                        ix
                    }
                    None => {
                        self.slots.push(slot);
                        NodeIx(self.slots.len() as u32 - 1)
                    }
                };
                self.by_name.insert(node.name.clone(), ix);
                ix
            }
        };
        self.gpu_count += node.gpus.len() as u64;
        self.changes.node(ix);
        self.changes.reshape();
    }

    fn set_health(&mut self, name: &Name, health: Health, sink: &mut dyn Sink) {
        let Some(ix) = self.node_ix(name.as_str()) else {
            return;
        };
        self.meter_node(ix, sink);
        self.slot_mut(ix).books.health = health;
        if health == Health::Ready {
            self.closing.remove(&ix);
        } else {
            self.closing.insert(ix);
        }
        self.changes.refit();
        self.changes.node(ix);
        self.changes.grow();
        if matches!(health, Health::Reclaiming(_) | Health::Lost) {
            let leases = self.leases_on(name.as_str()).cloned().collect();
            self.give_back_promises(leases, sink);
        }
    }

    fn node_gone(&mut self, name: &Name, sink: &mut dyn Sink) {
        let Some(ix) = self.node_ix(name.as_str()) else {
            return;
        };
        self.meter_node(ix, sink);
        for worker in self.slot(ix).leases.clone() {
            if let Some(attempt) = self.lease(&worker).map(|lease| lease.attempt) {
                self.release(&worker, attempt, After::Exit(Exit::Lost), sink);
            }
        }
        self.gpu_count -= self.slot(ix).gpus.len() as u64;
        self.by_name.remove(name);
        self.closing.remove(&ix);
        self.slots[ix.0 as usize] = None;
        self.vacant.push(ix);
        self.changes.node(ix);
        self.changes.reshape();
    }

    fn set_sick(&mut self, name: &Name, gpu: u8, sick: bool, sink: &mut dyn Sink) {
        let Some(ix) = self.node_ix(name.as_str()) else {
            return;
        };
        if usize::from(gpu) >= self.slot(ix).gpus.len() {
            return;
        }
        self.meter_gpu(ix, usize::from(gpu), sink);
        let slot = self.slot_mut(ix);
        slot.books.gpus[usize::from(gpu)].sick = sick;
        slot.gpus[usize::from(gpu)].cut_failures = 0;
        self.recount(ix);
        self.changes.node(ix);
        self.changes.grow();
    }

    /// Makes a node's books anew from its leases, in the order of their workers; those that do
    /// not fit beside the others are contested.
    fn recount(&mut self, ix: NodeIx) {
        self.changes.refit();
        let Some(slot) = self.slots[ix.0 as usize].as_mut() else {
            return;
        };
        let books = &mut slot.books;
        books.cpu_milli = books.node.cpu_milli;
        books.memory_bytes = books.node.memory_bytes;
        books.pods = books.node.pods;
        books.contested = 0;
        // A sick GPU takes nothing new but keeps what lies on it.
        let sick: Vec<bool> = books.gpus.iter().map(|gpu| gpu.sick).collect();
        for gpu in &mut books.gpus {
            gpu.used = Use::Free;
            gpu.sick = false;
        }
        slot.gpus
            .iter_mut()
            .for_each(|device| device.slices.clear());
        for worker in &slot.leases {
            let work = self.work.get_mut(&worker.workload);
            let entry = work.and_then(|work| work.workers.get_mut(worker.index as usize));
            let Some((lease, contested)) =
                entry.and_then(|w| w.lease.as_deref().map(|lease| (lease, &mut w.contested)))
            else {
                continue;
            };
            *contested = books.take(&lease.hold, &self.boards).is_err();
            books.contested += u32::from(*contested);
            for slice in &lease.hold.slices {
                if let Some(device) = slot.gpus.get_mut(usize::from(slice.gpu)) {
                    device.slices.push((worker.clone(), *slice));
                }
            }
        }
        for (gpu, was_sick) in books.gpus.iter_mut().zip(sick) {
            gpu.sick = was_sick;
        }
    }

    // Work.

    fn submit(&mut self, spec: &Workload) {
        let workers = spec.workers() as usize;
        if self.work.contains_key(&spec.name) || workers == 0 {
            return;
        }
        let asks: Vec<_> = spec
            .groups
            .iter()
            .map(|group| self.asks.intern(&group.ask, &self.boards))
            .collect();
        for (group, &ask) in spec.groups.iter().zip(&asks) {
            self.asks.arrived(ask, u64::from(group.workers));
        }
        let class = self.classes.join(spec, &asks);
        // A name may be used again while hands still remember its earlier attempts. Every attempt
        // takes a batch, so counting goes on above them.
        let mut unused = Worker::default();
        unused.past.attempt = u32::try_from(self.number).unwrap_or(u32::MAX);
        let work = Work {
            spec: Arc::new(spec.clone()),
            class,
            asks,
            workers: vec![unused; workers],
            cancelled: false,
        };
        self.waiting.insert(work.turn());
        if spec
            .groups
            .iter()
            .any(|group| !group.ask.limits.affinity.is_empty())
        {
            self.shy.insert(spec.name.clone());
        }
        self.work.insert(spec.name.clone(), work);
    }

    fn cancel(&mut self, name: &Name, sink: &mut dyn Sink) {
        let Some(work) = self.work.get_mut(name) else {
            return;
        };
        work.cancelled = true;
        let held = work
            .workers
            .iter()
            .filter_map(Worker::lease)
            .cloned()
            .collect();
        self.give_back_promises(held, sink);
        self.settle(name);
    }

    /// What was promised and never told to anyone is simply given back.
    fn give_back_promises(&mut self, leases: Vec<Lease>, sink: &mut dyn Sink) {
        for lease in leases.iter().filter(|lease| lease.phase == Phase::Promised) {
            self.withdraw(&place_name(&lease.worker, lease.attempt), sink);
        }
    }

    fn set_past(&mut self, id: &WorkerId, past: WorkerPast) {
        let worker = self.work.get_mut(&id.workload);
        if let Some(worker) = worker.and_then(|work| work.workers.get_mut(id.index as usize)) {
            worker.past = past;
            self.settle(&id.workload);
        }
    }

    /// Brings what is derived from a workload in line with it, and lets go of it when it is over.
    fn settle(&mut self, name: &Name) {
        let Some(work) = self.work.get(name) else {
            return;
        };
        let turn = work.turn();
        let over = !work.holds() && (work.cancelled || work.is_finished());
        if over || work.cancelled || work.missing() == 0 {
            self.waiting.remove(&turn);
        } else {
            self.waiting.insert(turn);
        }
        if work.cancelled && !over {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(name);
        }
        if !over && work.is_ailing() {
            self.ailing.entry(name.clone()).or_insert(self.now);
        } else {
            self.ailing.remove(name);
        }
        if over {
            let class = work.class;
            self.work.remove(name);
            self.shy.remove(name);
            self.classes.leave(class);
        }
    }

    // Decisions and actions.

    fn decided(&mut self, plan: &Plan, sink: &mut dyn Sink) {
        for action in &plan.withdrawn {
            self.withdraw(action, sink);
            // What was given up is not begun again at once.
            let wait = self.now + self.policy.back_off_ms;
            if let Subject::Worker(id) = &action.subject
                && let Some(worker) = self.worker_mut(id)
            {
                worker.past.not_before = worker.past.not_before.max(wait);
            }
        }
        for action in &plan.actions {
            self.decided_action(action, sink);
        }
        for change in &plan.verdicts {
            self.concluded(change);
        }
        self.cursor.clone_from(&plan.truncated);
    }

    fn decided_action(&mut self, action: &Action, sink: &mut dyn Sink) {
        let Subject::Worker(id) = &action.name.subject else {
            return;
        };
        let attempt = action.name.attempt;
        let work = self.work.get(&id.workload);
        let Some(worker) = work.and_then(|work| work.worker(id.index)) else {
            return;
        };
        match &action.what {
            What::Place(hold) => {
                if !worker.is_missing() || attempt != worker.past.attempt + 1 {
                    return;
                }
                let lease = Lease {
                    worker: id.clone(),
                    attempt,
                    hold: hold.clone(),
                    phase: Phase::Promised,
                    since: self.now,
                };
                self.hold(lease, sink);
            }
            What::Evict { .. } => {
                if worker.lease().is_none_or(|lease| lease.attempt != attempt) {
                    return;
                }
            }
        }
        self.open_action(Open {
            action: action.clone(),
            life: Life::Proposed,
            message: None,
        });
    }

    fn open_action(&mut self, open: Open) {
        if !open.action.after.is_empty() {
            self.dependent.insert(open.action.name.clone());
        }
        self.open.insert(open.action.name.clone(), open);
    }

    /// Takes back an action that nobody was told of; what waited for it goes too.
    fn withdraw(&mut self, name: &ActionName, sink: &mut dyn Sink) {
        if self
            .open
            .get(name)
            .is_none_or(|open| open.life != Life::Proposed)
        {
            return;
        }
        self.close(name, false, sink);
        if let (Subject::Worker(id), Verb::Place) = (&name.subject, name.verb) {
            self.release(id, name.attempt, After::Withdrawn, sink);
        }
    }

    /// Ends an action. What waited for it may go on when it is done, and is withdrawn otherwise.
    fn close(&mut self, name: &ActionName, done: bool, sink: &mut dyn Sink) {
        if self.open.remove(name).is_none() {
            return;
        }
        self.dependent.remove(name);
        if done {
            return;
        }
        let orphans: Vec<ActionName> = self
            .dependent
            .iter()
            .filter(|other| self.open[*other].action.after.contains(name))
            .cloned()
            .collect();
        for orphan in orphans {
            self.withdraw(&orphan, sink);
        }
    }

    fn sent(&mut self, name: &ActionName, message: MessageNo, sink: &mut dyn Sink) {
        let Some(open) = self.open.get_mut(name) else {
            return;
        };
        let first = open.life == Life::Proposed;
        open.message = Some(message);
        if !first {
            return;
        }
        open.life = Life::Sent;
        let Subject::Worker(id) = name.subject.clone() else {
            return;
        };
        let phase = match name.verb {
            Verb::Place => Phase::Preparing,
            Verb::Evict => Phase::Draining,
        };
        self.set_phase(&id, name.attempt, phase, sink);
    }

    fn concluded(&mut self, change: &VerdictChange) {
        if let Some(work) = self.work.get(&change.like) {
            self.classes.set_verdict(work.class, change.verdict.clone());
        }
    }

    // Leases.

    fn hold(&mut self, lease: Lease, sink: &mut dyn Sink) {
        let id = lease.worker.clone();
        let node = self.node_ix(lease.hold.node.as_str());
        let work = self.work.get(&id.workload);
        if work
            .and_then(|work| work.worker(id.index))
            .is_none_or(|worker| worker.lease.is_some())
        {
            return;
        }
        if let Some(ix) = node {
            self.meter_hold(ix, &lease, sink);
        }
        let fits = node.is_some_and(|ix| {
            let boards = &self.boards;
            let slot = self.slots[ix.0 as usize].as_mut().expect("found by name");
            slot.books.contested == 0 && slot.books.take(&lease.hold, boards).is_ok()
        });
        if let (Some(ix), true) = (node, fits) {
            let gpus = &mut self.slot_mut(ix).gpus;
            for slice in &lease.hold.slices {
                gpus[usize::from(slice.gpu)]
                    .slices
                    .push((id.clone(), *slice));
            }
        }
        let worker = self.worker_mut(&id).expect("looked up above");
        worker.past.attempt = worker.past.attempt.max(lease.attempt);
        worker.contested = !fits;
        worker.lease = Some(Box::new(lease));
        if let Some(ix) = node {
            self.slot_mut(ix).leases.insert(id.clone());
            if !fits {
                self.recount(ix);
            }
            self.changes.node(ix);
        }
        self.settle(&id.workload);
    }

    fn worker_mut(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        self.work
            .get_mut(&id.workload)?
            .workers
            .get_mut(id.index as usize)
    }

    fn started(&mut self, id: &WorkerId, attempt: u32, sink: &mut dyn Sink) {
        let lease = self.lease(id).filter(|lease| lease.attempt == attempt);
        let Some(lease) = lease else { return };
        if !matches!(lease.phase, Phase::Promised | Phase::Preparing) {
            return;
        }
        let hold = lease.hold.clone();
        self.close(&place_name(id, attempt), true, sink);
        self.set_phase(id, attempt, Phase::Running, sink);
        if let Some(worker) = self.worker_mut(id) {
            worker.past.failures = 0;
        }
        for slice in &hold.slices {
            if let Some(device) = self.device_mut(&hold.node, slice.gpu) {
                device.cut_failures = 0;
            }
        }
    }

    fn set_phase(&mut self, id: &WorkerId, attempt: u32, phase: Phase, sink: &mut dyn Sink) {
        let Some(lease) = self
            .lease(id)
            .filter(|l| l.attempt == attempt && l.phase < phase)
        else {
            return;
        };
        let lease = lease.clone();
        if let Some(ix) = self.node_ix(lease.hold.node.as_str()) {
            self.meter_hold(ix, &lease, sink);
        }
        let now = self.now;
        let held = self
            .worker_mut(id)
            .and_then(|worker| worker.lease.as_deref_mut());
        if let Some(held) = held {
            held.phase = phase;
            held.since = now;
        }
        if phase == Phase::Draining {
            self.close(&place_name(id, attempt), true, sink);
            self.settle(&id.workload);
        }
    }

    /// Gives back what an attempt held, and settles what comes after for the worker.
    fn release(&mut self, id: &WorkerId, attempt: u32, after: After, sink: &mut dyn Sink) {
        let Some(lease) = self
            .lease(id)
            .filter(|lease| lease.attempt == attempt)
            .cloned()
        else {
            return;
        };
        if let Some(ix) = self.node_ix(lease.hold.node.as_str()) {
            self.meter_hold(ix, &lease, sink);
            self.give_back(ix, &lease);
        }
        let policy = &self.policy;
        let (first, longest, now) = (policy.back_off_ms, policy.back_off_max_ms, self.now);
        let retries = self
            .work
            .get(&id.workload)
            .map_or(0, |work| work.spec.retries);
        if let Some(worker) = self.worker_mut(id) {
            worker.lease = None;
            worker.contested = false;
            let past = &mut worker.past;
            match after {
                After::Exit(Exit::Error(_)) if past.retried < retries => {
                    past.retried += 1;
                    past.not_before = now + back_off(first, longest, past.retried);
                }
                After::Exit(exit @ (Exit::Done | Exit::Error(_))) => past.finished = Some(exit),
                After::Exit(Exit::Evicted | Exit::Lost) | After::Withdrawn => {}
                // Nothing was tried: the order came to nothing on its way.
                After::Failure(Failure::Stale | Failure::NodeGone) => {}
                After::Failure(Failure::Cut(_) | Failure::Start) => {
                    past.failures += 1;
                    past.not_before = now + back_off(first, longest, past.failures);
                }
            }
        }
        if let After::Failure(Failure::Cut(gpu)) = after
            && let Some(device) = self.device_mut(&lease.hold.node, gpu)
        {
            device.cut_failures += 1;
        }
        let place_done = !matches!(after, After::Failure(_) | After::Withdrawn);
        let names: Vec<ActionName> = [Verb::Place, Verb::Evict]
            .iter()
            .flat_map(|&verb| {
                let from = ActionName {
                    subject: Subject::Worker(id.clone()),
                    attempt,
                    verb,
                    n: 0,
                };
                let to = ActionName {
                    n: u32::MAX,
                    ..from.clone()
                };
                self.open.range(from..=to).map(|(name, _)| name.clone())
            })
            .collect();
        for name in names {
            let done = name.verb == Verb::Evict || place_done;
            self.close(&name, done, sink);
        }
        self.changes.grow();
        self.settle(&id.workload);
    }

    fn give_back(&mut self, ix: NodeIx, lease: &Lease) {
        let boards = &self.boards;
        let slot = self.slots[ix.0 as usize].as_mut().expect("found by name");
        slot.leases.remove(&lease.worker);
        let books = &mut slot.books;
        if books.contested > 0 {
            // The lease itself still stands in its work; take it out before counting anew.
            if let Some(worker) = self
                .work
                .get_mut(&lease.worker.workload)
                .and_then(|work| work.workers.get_mut(lease.worker.index as usize))
            {
                worker.lease = None;
            }
            self.recount(ix);
        } else {
            books.cpu_milli += lease.hold.cpu_milli;
            books.memory_bytes += lease.hold.memory_bytes;
            books.pods += 1;
            for slice in &lease.hold.slices {
                let gpu = &mut books.gpus[usize::from(slice.gpu)];
                let slices = &mut slot.gpus[usize::from(slice.gpu)].slices;
                slices.retain(|(worker, _)| *worker != lease.worker);
                let (board, layouts) = (boards.board(gpu.board), boards.layouts(gpu.board));
                gpu.used = Use::of(slices.iter().map(|(_, slice)| slice), board, layouts)
                    .expect("a part of what lies together lies together");
            }
        }
        self.changes.node(ix);
    }

    // Metering happens before anything changes.

    fn meter_hold(&mut self, ix: NodeIx, lease: &Lease, sink: &mut dyn Sink) {
        for slice in &lease.hold.slices {
            self.meter_gpu(ix, usize::from(slice.gpu), sink);
        }
    }

    fn meter_node(&mut self, ix: NodeIx, sink: &mut dyn Sink) {
        for gpu in 0..self.slot(ix).gpus.len() {
            self.meter_gpu(ix, gpu, sink);
        }
    }

    fn meter_gpu(&mut self, ix: NodeIx, gpu: usize, sink: &mut dyn Sink) {
        let now = self.now;
        let Some(device) = self.slot(ix).gpus.get(gpu) else {
            return;
        };
        let from = device.metered_to;
        if from < now {
            meter::close(self, ix, gpu, from, now, sink);
            self.slot_mut(ix).gpus[gpu].metered_to = now;
        }
    }

    /// Closes the intervals of every GPU up to now, as a report or the end of a run needs.
    pub fn meter_all(&mut self, sink: &mut dyn Sink) {
        for ix in self.by_name.values().copied().collect::<Vec<_>>() {
            self.meter_node(ix, sink);
        }
    }
}

/// What a released lease came from.
#[derive(Clone, Copy, Debug)]
enum After {
    Exit(Exit),
    Failure(Failure),
    Withdrawn,
}

/// The name of the placement of a worker's attempt.
pub fn place_name(worker: &WorkerId, attempt: u32) -> ActionName {
    ActionName {
        subject: Subject::Worker(worker.clone()),
        attempt,
        verb: Verb::Place,
        n: 0,
    }
}

/// Wait after `failures` failed starts in a row: `first`, doubled with each, at most `longest`.
fn back_off(first: Millis, longest: Millis, failures: u32) -> Millis {
    let doubled = first
        .checked_shl(failures.saturating_sub(1))
        .filter(|wait| *wait >= first);
    doubled.unwrap_or(longest).min(longest)
}
