//! Workloads as the state keeps them, distinct asks, and classes of equal work.

use super::Turn;
use crate::forms::{Way, ways};
use cleave_model::{
    Name, WorkerId,
    ask::Ask,
    board::Catalogue,
    event::WorkerPast,
    lease::{Lease, Phase},
    verdict::{Reason, Verdict},
    workload::{Class, Workload},
};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// Number of a distinct ask; means nothing outside its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskIx(pub u32);

/// Number of a class of equal work; means nothing outside its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassIx(pub u32);

/// A workload that is not finished.
#[derive(Clone, Debug)]
pub struct Work {
    /// As it was submitted.
    pub spec: Arc<Workload>,
    /// Its class of equal work.
    pub class: ClassIx,
    /// The distinct ask of each group.
    pub asks: Vec<AskIx>,
    /// Its workers by index.
    pub workers: Vec<Worker>,
    /// It is no longer wanted.
    pub cancelled: bool,
}

/// One worker of a workload.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// What is remembered of its attempts.
    pub past: WorkerPast,
    pub(super) lease: Option<Box<Lease>>,
    pub(super) contested: bool,
}

impl Worker {
    /// What it holds.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    /// What it holds contradicts other leases.
    pub fn is_contested(&self) -> bool {
        self.contested
    }

    /// It wants a place: no lease, not finished.
    pub fn is_missing(&self) -> bool {
        self.lease.is_none() && self.past.finished.is_none()
    }

    /// It counts towards its group's minimum: it holds a place it was not told to leave, or is
    /// done.
    pub fn is_live(&self) -> bool {
        match &self.lease {
            Some(lease) => lease.phase != Phase::Draining,
            None => self.past.finished.is_some(),
        }
    }
}

impl Work {
    pub(super) fn turn(&self) -> Turn {
        (
            Reverse(self.spec.priority),
            self.spec.submitted,
            self.spec.name.clone(),
        )
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// The worker at `index`.
    pub fn worker(&self, index: u32) -> Option<&Worker> {
        self.workers.get(index as usize)
    }

    /// How many workers want a place.
    pub fn missing(&self) -> usize {
        self.workers
            .iter()
            .filter(|worker| worker.is_missing())
            .count()
    }

    /// Its groups: number, first worker index, workers.
    pub fn groups(&self) -> impl Iterator<Item = (usize, u32, &[Worker])> {
        let mut first = 0;
        self.spec.groups.iter().enumerate().map(move |(ix, group)| {
            let start = first;
            first += group.workers;
            (ix, start, &self.workers[start as usize..first as usize])
        })
    }

    /// It is wanted and holds something, but some group has fewer live workers than its minimum.
    pub fn is_ailing(&self) -> bool {
        let holds = self
            .workers
            .iter()
            .any(|w| w.lease.is_some() && w.is_live());
        !self.cancelled
            && holds
            && self.groups().any(|(ix, _, workers)| {
                let live = workers.iter().filter(|worker| worker.is_live()).count();
                live < self.spec.groups[ix].min as usize
            })
    }

    /// It holds only what is being left.
    pub fn is_leaving(&self) -> bool {
        let mut held = self.workers.iter().filter_map(Worker::lease).peekable();
        held.peek().is_some() && held.all(|lease| lease.phase == Phase::Draining)
    }

    /// Every worker is finished.
    pub fn is_finished(&self) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.past.finished.is_some())
    }

    /// It holds something.
    pub fn holds(&self) -> bool {
        self.workers.iter().any(|worker| worker.lease.is_some())
    }

    /// The identity of its worker at `index`.
    pub fn id(&self, index: u32) -> WorkerId {
        WorkerId {
            workload: self.spec.name.clone(),
            index,
        }
    }
}

/// Distinct asks with how often each arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    by_content: BTreeMap<Arc<Ask>, AskIx>,
    all: Vec<Entry>,
    arrivals: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    ask: Arc<Ask>,
    arrived: u64,
    ways: Result<Vec<Way>, Reason>,
}

impl Asks {
    pub fn intern(&mut self, ask: &Ask, boards: &Catalogue) -> AskIx {
        if let Some(&ix) = self.by_content.get(ask) {
            return ix;
        }
        let ix = AskIx(self.all.len() as u32);
        let ask = Arc::new(ask.clone());
        self.by_content.insert(ask.clone(), ix);
        self.all.push(Entry {
            ways: ways(&ask, boards),
            ask,
            arrived: 0,
        });
        ix
    }

    pub fn arrived(&mut self, ix: AskIx, workers: u64) {
        self.all[ix.0 as usize].arrived += workers;
        self.arrivals += workers;
    }

    /// Replaces all counts.
    pub fn set_arrivals(&mut self, counts: &[(Ask, u64)], boards: &Catalogue) {
        self.all.iter_mut().for_each(|entry| entry.arrived = 0);
        self.arrivals = 0;
        for (ask, count) in counts {
            let ix = self.intern(ask, boards);
            self.arrived(ix, *count);
        }
    }

    pub fn get(&self, ix: AskIx) -> &Arc<Ask> {
        &self.all[ix.0 as usize].ask
    }

    pub fn ways(&self, ix: AskIx) -> Result<&[Way], &Reason> {
        self.all[ix.0 as usize].ways.as_deref()
    }

    /// The boards are others now.
    pub fn find_ways(&mut self, boards: &Catalogue) {
        for entry in &mut self.all {
            entry.ways = ways(&entry.ask, boards);
        }
    }

    pub fn sorted(&self) -> impl Iterator<Item = (AskIx, &Arc<Ask>, u64)> {
        self.by_content.values().map(|&ix| {
            let entry = &self.all[ix.0 as usize];
            (ix, &entry.ask, entry.arrived)
        })
    }

    pub fn behind(&self, known: usize) -> impl Iterator<Item = &Arc<Ask>> {
        self.all.iter().skip(known).map(|entry| &entry.ask)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }
}

/// What makes work equal: everything that decides where and when it may run, but its age.
type ClassKey = (Name, Class, i32, Vec<(u32, u32, AskIx)>);

/// Classes of equal work, as long as there is work in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    by_key: BTreeMap<ClassKey, ClassIx>,
    all: Vec<ClassEntry>,
    vacant: Vec<ClassIx>,
}

#[derive(Clone, Debug)]
struct ClassEntry {
    key: ClassKey,
    members: u64,
    verdict: Option<Verdict>,
}

impl Classes {
    pub fn join(&mut self, spec: &Workload, asks: &[AskIx]) -> ClassIx {
        let groups = spec
            .groups
            .iter()
            .zip(asks)
            .map(|(g, &ask)| (g.workers, g.min, ask));
        let key = (
            spec.queue.clone(),
            spec.class,
            spec.priority,
            groups.collect::<Vec<_>>(),
        );
        if let Some(&ix) = self.by_key.get(&key) {
            self.all[ix.0 as usize].members += 1;
            return ix;
        }
        let entry = ClassEntry {
            key: key.clone(),
            members: 1,
            verdict: None,
        };
        let ix = match self.vacant.pop() {
            Some(ix) => {
                self.all[ix.0 as usize] = entry;
                ix
            }
            None => {
                self.all.push(entry);
                ClassIx(self.all.len() as u32 - 1)
            }
        };
        self.by_key.insert(key, ix);
        ix
    }

    pub fn leave(&mut self, ix: ClassIx) {
        let entry = &mut self.all[ix.0 as usize];
        entry.members -= 1;
        if entry.members == 0 {
            self.by_key.remove(&entry.key);
            self.vacant.push(ix);
        }
    }

    pub fn verdict(&self, ix: ClassIx) -> Option<&Verdict> {
        self.all[ix.0 as usize].verdict.as_ref()
    }

    pub fn set_verdict(&mut self, ix: ClassIx, verdict: Verdict) {
        self.all[ix.0 as usize].verdict = Some(verdict);
    }
}
