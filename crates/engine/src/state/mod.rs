//! The state: facts in, views and closed intervals out.
//!
//! [`State::apply`] never fails and depends on nothing but what was folded before: replaying a
//! journal gives an equal state. It decides nothing.

mod canon;
mod check;
mod fold;
mod genesis;
mod log;
mod meter;
mod work;

pub use canon::VERSION as CANONICAL_VERSION;
pub use check::Broken;
pub use fold::place_name;
pub use log::Changes;
pub use meter::{NoSink, Sink};
pub use work::{AskIx, ClassIx, Work, Worker};

use crate::{
    forms::Way,
    inventory::{NodeBooks, NodeIx},
    planner::pricing,
    price::Board,
};
use cleave_model::{
    Millis, Name, WorkerId,
    action::{Action, ActionName, Life},
    ask::Ask,
    board::{BoardId, Catalogue},
    event::{Batch, Event},
    lease::{Lease, Phase, Slice},
    observation::MessageNo,
    plan::Cursor,
    policy::{Mix, Policy},
    prices::Prices,
    queue::Queue,
    verdict::{Reason, Verdict},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};
use work::{Asks, Classes};

/// Everything that is known, folded from batches of events.
#[derive(Clone, Debug, Default)]
pub struct State {
    number: u64,
    now: Millis,
    policy: Policy,
    boards: Catalogue,
    /// Each as pricing sees it, made when first asked for.
    priced: Vec<OnceLock<Board>>,
    queues: BTreeMap<Name, Queue>,
    slots: Vec<Option<Slot>>,
    vacant: Vec<NodeIx>,
    by_name: BTreeMap<Name, NodeIx>,
    gpu_count: u64,
    work: BTreeMap<Name, Work>,
    waiting: BTreeSet<Turn>,
    ailing: BTreeMap<Name, Millis>,
    leaving: BTreeSet<Name>,
    shy: BTreeSet<Name>,
    closing: BTreeSet<NodeIx>,
    open: BTreeMap<ActionName, Open>,
    dependent: BTreeSet<ActionName>,
    asks: Asks,
    classes: Classes,
    prior: Option<Arc<[(Ask, u64)]>>,
    /// The ways to serve each ask of `prior`.
    prior_ways: Vec<Vec<Way>>,
    prices: Option<Arc<Prices>>,
    mean_weight: Option<i128>,
    cursor: Option<Cursor>,
    changes: Changes,
}

/// Place of a workload in the order of waiting work: priority, then age, then name.
type Turn = (Reverse<i32>, Millis, Name);

/// A node with who lies on it.
#[derive(Clone, Debug)]
struct Slot {
    books: NodeBooks,
    leases: BTreeSet<WorkerId>,
    gpus: Vec<Device>,
}

/// What is remembered of one GPU beside its books.
#[derive(Clone, Debug, Default)]
struct Device {
    slices: Vec<(WorkerId, Slice)>,
    metered_to: Millis,
    cut_failures: u32,
}

/// An open action and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The action.
    pub action: Action,
    /// How far it is.
    pub life: Life,
    /// The last message by which it was told.
    pub message: Option<MessageNo>,
}

impl State {
    /// Nothing is known yet, but for the built-in boards.
    pub fn new() -> Self {
        let boards = Catalogue::builtin();
        Self {
            priced: vec![OnceLock::new(); boards.ids().len()],
            boards,
            ..Self::default()
        }
    }

    /// Folds a batch in. Facts that contradict what is known are kept where they must be (a lease
    /// that overlaps another closes its node and is shown as contested) and otherwise change
    /// nothing.
    pub fn apply(&mut self, batch: &Batch, sink: &mut dyn Sink) {
        self.number = batch.number;
        self.now = self.now.max(batch.now);
        for event in &batch.events {
            self.fold(event, sink);
        }
    }

    /// Number of the last batch.
    pub fn batch(&self) -> u64 {
        self.number
    }

    /// The latest `now`.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The rules in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The boards as used.
    pub fn boards(&self) -> &Catalogue {
        &self.boards
    }

    /// What pricing needs of a board.
    pub(crate) fn priced_board(&self, id: BoardId) -> &Board {
        let priced = &self.priced[usize::from(id.0)];
        priced.get_or_init(|| pricing::board(&self.boards, id))
    }

    /// The queues by name.
    pub fn queues(&self) -> &BTreeMap<Name, Queue> {
        &self.queues
    }

    /// The nodes in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &NodeBooks)> {
        self.by_name.values().map(|&ix| (ix, &self.slot(ix).books))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    /// How many GPUs there are.
    pub fn gpu_count(&self) -> u64 {
        self.gpu_count
    }

    /// The position of a node.
    pub fn node_ix(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// The node at a position that holds one.
    pub fn node(&self, ix: NodeIx) -> Option<&NodeBooks> {
        self.slots
            .get(ix.0 as usize)?
            .as_ref()
            .map(|slot| &slot.books)
    }

    /// The workload of that name, unless it is finished.
    pub fn workload(&self, name: &str) -> Option<&Work> {
        self.work.get(name)
    }

    /// All workloads that are not finished, by name.
    pub fn workloads(&self) -> impl Iterator<Item = (&Name, &Work)> {
        self.work.iter()
    }

    /// Workloads with workers that want a place, in the order in which they are served.
    pub fn waiting(&self) -> impl Iterator<Item = &Work> {
        self.waiting.iter().map(|turn| &self.work[&turn.2])
    }

    /// As [`State::waiting`], but only those behind `cursor`.
    pub fn waiting_behind(&self, cursor: &Cursor) -> impl Iterator<Item = &Work> {
        let turn = self.work.get(&cursor.last).map(Work::turn);
        let behind = turn.map(|turn| {
            self.waiting
                .range((std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded))
        });
        behind.into_iter().flatten().map(|turn| &self.work[&turn.2])
    }

    /// Where the last search stood if its budget ended.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Gangs between nothing and their minimum, and since when.
    pub fn ailing(&self) -> &BTreeMap<Name, Millis> {
        &self.ailing
    }

    /// Cancelled workloads that still hold something.
    pub fn leaving(&self) -> impl Iterator<Item = &Work> {
        self.leaving.iter().map(|name| &self.work[name])
    }

    /// Workloads that keep a distance to others.
    pub fn shy(&self) -> impl Iterator<Item = &Work> {
        self.shy.iter().map(|name| &self.work[name])
    }

    /// Nodes that are not open for new work, by position.
    pub fn closing(&self) -> impl Iterator<Item = &NodeBooks> {
        self.closing.iter().map(|&ix| &self.slot(ix).books)
    }

    /// The lease of a worker.
    pub fn lease(&self, worker: &WorkerId) -> Option<&Lease> {
        self.work
            .get(&worker.workload)?
            .worker(worker.index)?
            .lease()
    }

    /// The leases on a node, by worker.
    pub fn leases_on(&self, node: &str) -> impl Iterator<Item = &Lease> {
        let ix = self.node_ix(node);
        let leases = ix.map(|ix| &self.slot(ix).leases);
        leases
            .into_iter()
            .flatten()
            .filter_map(|worker| self.lease(worker))
    }

    /// The slices on one GPU of a node and who holds them.
    pub fn slices_on(&self, node: NodeIx, gpu: u8) -> &[(WorkerId, Slice)] {
        &self.slot(node).gpus[usize::from(gpu)].slices
    }

    /// All leases, by worker.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.work
            .values()
            .flat_map(|work| work.workers.iter().filter_map(Worker::lease))
    }

    /// The open actions, by name.
    pub fn open_actions(&self) -> impl Iterator<Item = &Open> {
        self.open.values()
    }

    /// An open action.
    pub fn open(&self, name: &ActionName) -> Option<&Open> {
        self.open.get(name)
    }

    /// What is said of a workload; `None` before anything was.
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        let work = self.work.get(name)?;
        let mut missing = work
            .workers
            .iter()
            .filter(|worker| worker.is_missing())
            .peekable();
        if missing.peek().is_none() {
            return Some(Verdict::Placed);
        }
        if work.is_leaving() {
            let leaving = work.workers.iter().filter_map(Worker::lease);
            let leaving = leaving.filter(|lease| lease.phase == Phase::Draining);
            return Some(Verdict::WaitsFor(
                leaving.map(|lease| lease.worker.clone()).collect(),
            ));
        }
        if missing.any(|worker| worker.past.not_before > self.now) {
            return Some(Verdict::Not(Reason::BackOff));
        }
        self.class_verdict(work.class).cloned()
    }

    /// What is said of the waiting work of a class.
    pub fn class_verdict(&self, class: ClassIx) -> Option<&Verdict> {
        self.classes.verdict(class)
    }

    /// A distinct ask.
    pub fn ask(&self, ix: AskIx) -> &Arc<Ask> {
        self.asks.get(ix)
    }

    /// The ways to serve a distinct ask, best first; none where it wants no GPU.
    ///
    /// # Errors
    /// Why no board can.
    pub fn ways(&self, ix: AskIx) -> Result<&[Way], &Reason> {
        self.asks.ways(ix)
    }

    /// Every distinct ask so far in the order of their contents, with how often it arrived.
    pub fn asks(&self) -> impl Iterator<Item = (AskIx, &Arc<Ask>, u64)> {
        self.asks.sorted()
    }

    /// The distinct asks in the order in which they first came, but for so many.
    pub fn asks_behind(&self, known: usize) -> impl Iterator<Item = &Arc<Ask>> {
        self.asks.behind(known)
    }

    /// How many distinct asks there have been.
    pub fn ask_count(&self) -> usize {
        self.asks.len()
    }

    /// How many workers have arrived so far.
    pub fn arrivals(&self) -> u64 {
        self.asks.arrivals()
    }

    /// The distribution of asks given beforehand, if any.
    pub fn prior(&self) -> Option<&Arc<[(Ask, u64)]>> {
        self.prior.as_ref()
    }

    /// The asks of [`State::prior`] with how often each comes and the ways to serve it; none where
    /// no board can.
    pub fn expected(&self) -> impl Iterator<Item = (&Ask, u64, &[Way])> {
        let asks = self.prior.iter().flat_map(|prior| prior.iter());
        let ways = self.prior_ways.iter();
        asks.zip(ways)
            .map(|((ask, often), ways)| (ask, *often, &ways[..]))
    }

    /// Whether the mix of asks is known beforehand.
    pub fn knows_mix(&self) -> bool {
        self.policy.mix == Mix::Prior && self.prior.is_some()
    }

    /// The prices in force.
    pub fn prices(&self) -> Option<&Arc<Prices>> {
        self.prices.as_ref()
    }

    /// The mean weight of an ask by the prices in force, see [`crate::price::mean_weight`].
    pub(crate) fn mean_weight(&self) -> Option<i128> {
        self.mean_weight
    }

    /// Failed cuts in a row of a GPU.
    pub fn cut_failures(&self, node: &str, gpu: u8) -> u32 {
        let device = self
            .node_ix(node)
            .and_then(|ix| self.slot(ix).gpus.get(usize::from(gpu)));
        device.map_or(0, |device| device.cut_failures)
    }

    /// What changed, for working copies that follow.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The facts from which an equal state is made: the head of a journal, a fork, a relist.
    pub fn genesis(&self) -> Vec<Event> {
        genesis::facts(self)
    }

    /// The state as text, independent of how it came about; equal states have equal text.
    pub fn canonical(&self) -> String {
        canon::text(self)
    }

    /// Checks the rules that never break.
    ///
    /// # Errors
    /// The first rule found broken, with the object concerned.
    pub fn check(&self) -> Result<(), Broken> {
        check::rules(self)
    }

    fn slot(&self, ix: NodeIx) -> &Slot {
        self.slots[ix.0 as usize]
            .as_ref()
            .expect("a node index in use names a node")
    }

    fn slot_mut(&mut self, ix: NodeIx) -> &mut Slot {
        self.slots[ix.0 as usize]
            .as_mut()
            .expect("a node index in use names a node")
    }
}
