//! Events: facts as they are folded into the state and written to the journal.
//!
//! Everything refers to things by name, so that a journal means the same to every release.

use crate::{
    Millis, Name, WorkerId,
    action::{Action, ActionName, Failure, Life},
    ask::Ask,
    board::Board,
    lease::Lease,
    node::{Health, Node},
    observation::{Exit, MessageNo},
    plan::{Cursor, Plan, VerdictChange},
    policy::Policy,
    prices::Prices,
    queue::Queue,
    workload::Workload,
};
use serde::{Deserialize, Serialize};

/// The version of the event format that this release writes.
pub const FORMAT: u32 = 1;

/// Facts that are folded together. An empty batch is how time passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Counts from 1 without gaps.
    pub number: u64,
    /// Never earlier than that of the batch before.
    pub now: Millis,
    /// The facts, in the order in which they are folded.
    pub events: Vec<Event>,
}

/// One fact. Later capabilities add variants; none is ever skipped when read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    // What there is.
    /// The rules in force from now on.
    Policy(Policy),
    /// A board as it is used from now on.
    Board(Board),
    /// A node came or changed.
    Node(Node),
    /// A node's health changed.
    NodeHealth(Name, Health),
    /// A node is gone with everything on it.
    NodeGone(Name),
    /// A GPU of a node can, or can no longer, be used.
    GpuSick(Name, u8, bool),
    /// A queue came or changed.
    Queue(Queue),

    // What is wanted.
    /// A workload was submitted.
    Submit(Workload),
    /// A workload is no longer wanted.
    Cancel(Name),
    /// The distribution of asks to expect: asks with relative counts.
    Prior(Vec<(Ask, u64)>),

    // What was concluded.
    /// A planner decided.
    Decided(Plan),
    /// Prices take effect.
    Priced(Prices),
    /// An action was told to its hands.
    Sent(ActionName, MessageNo),
    /// An action's deadline passed.
    Overdue(ActionName),

    // What happened.
    /// A worker's attempt runs.
    Started(WorkerId, u32),
    /// A worker's attempt ended; what it held is being cleaned up.
    Ended(WorkerId, u32, Exit),
    /// What a worker's attempt held is free.
    Freed(WorkerId, u32, Exit),
    /// A worker's attempt could not be started; what it held is free.
    Failed(WorkerId, u32, Failure),

    // A genesis: what a state is made of beyond the facts above.
    /// A lease as it stands.
    Lease(Lease),
    /// An open action as it stands.
    Open(Action, Life, Option<MessageNo>),
    /// A verdict as it stands.
    Verdict(VerdictChange),
    /// What is remembered of a worker: last attempt, failures in a row, not before.
    Worker(WorkerId, WorkerPast),
    /// How often each ask has arrived (workers).
    Arrivals(Vec<(Ask, u64)>),
    /// Since when a gang has been between nothing and its minimum.
    Ailing(Name, Millis),
    /// Failed cuts in a row of a GPU.
    CutFailures(Name, u8, u32),
    /// Where a truncated search stands.
    Cursor(Cursor),
    /// Up to when the GPUs of a node have been metered.
    MeteredTo(Name, Vec<Millis>),
}

/// What is remembered of a worker between attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPast {
    /// The last attempt; 0 if there was none.
    pub attempt: u32,
    /// Failed starts in a row.
    pub failures: u32,
    /// Attempts that ended by themselves with a failure and were tried again.
    pub retried: u32,
    /// No new attempt before.
    pub not_before: Millis,
    /// It ended by itself, its work done or given up.
    pub finished: Option<Exit>,
}

/// A closed interval of one part of a GPU in one state: what the ledger is written from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Interval {
    /// The node.
    pub node: Name,
    /// Device index.
    pub gpu: u8,
    /// Who holds it; `None` where nobody does.
    pub owner: Option<(WorkerId, u32)>,
    /// In which state it was.
    pub state: GpuTime,
    /// GPU units of the part.
    pub units: u32,
    /// From, inclusive.
    pub from: Millis,
    /// To, exclusive.
    pub to: Millis,
}

/// What a part of a GPU spends its time as; the states of one GPU always sum to the whole.
/// The ledger splits `Held` into used, idle and unmeasured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuTime {
    /// Held by a running worker.
    Held,
    /// No legal placement can use it while the present slices stay.
    Stranded,
    /// Free for use.
    Free,
    /// Promised to a placement that has not begun.
    Promised,
    /// Being cut or joined.
    Reconfiguring,
    /// Held by a worker that was told to leave, or is being cleaned up.
    Draining,
    /// The node is not up yet.
    Booting,
    /// Out of service: cordoned, sick, withheld.
    Down,
    /// The node is lost.
    Lost,
}
