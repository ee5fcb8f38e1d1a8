//! What a file says, as values of the model.

use crate::ast::expect::{Count, When};
use crate::place::{Place, Problem};
use cleave_model::{
    Millis, Name, WorkerId,
    ask::Ask,
    board::{Board, Catalogue},
    node::Node,
    policy::Policy,
    queue::Queue,
    workload::Workload,
};
use std::collections::BTreeMap;

/// A scenario: everything that decisions depend on, and what should come of it.
///
/// Lists of things that are equal are in order of their names, so the order in which a file
/// writes them never matters.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of everything random.
    pub seed: u64,
    /// Rules in force.
    pub policy: Policy,
    /// Label keys of nested domains, widest first; `host` is the node itself.
    pub topology: Vec<Name>,
    /// All boards that are known: the built-in ones with those of the file.
    pub catalogue: Catalogue,
    /// Boards of the file.
    pub boards: Vec<Board>,
    /// How long things take on nodes; `None`: everything is done at once.
    pub latency: Option<Latency>,
    /// Nodes there from the start, by name.
    pub nodes: Vec<Node>,
    /// Queues, by name; at least one.
    pub queues: Vec<Queue>,
    /// All workloads by time of submission, then name, those of events included.
    pub workloads: Vec<Workload>,
    /// Workers that run from the start, by worker.
    pub held: Vec<Held>,
    /// The distribution of asks to expect, with relative counts.
    pub prior: Vec<(Ask, u64)>,
    /// What happens beyond submissions, by time.
    pub events: Vec<Timed>,
    /// What should come of it, by time.
    pub expects: Vec<Expect>,
    /// What is doubtful but no error.
    pub warnings: Vec<Problem>,
}

/// A workload with what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The workload; `submitted` is for the receiver to say.
    pub workload: Workload,
    /// Command and arguments of each worker.
    pub command: Vec<String>,
    /// Variables added to the environment of the submitter.
    pub env: BTreeMap<String, String>,
    /// Working directory, if it is not the submitter's.
    pub directory: Option<String>,
    /// Its number in its range, if its name was one.
    pub array: Option<u32>,
}

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Cutting one slice.
    pub cut_ms: Millis,
    /// Joining one slice back.
    pub join_ms: Millis,
    /// Switching MIG mode without a reset.
    pub mode_ms: Millis,
    /// Switching MIG mode with a reset.
    pub reset_ms: Millis,
    /// Starting a worker once its slices are there.
    pub start_ms: Millis,
    /// From telling a worker to leave until it has left.
    pub exit_ms: Millis,
}

/// A worker that runs from the start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The worker.
    pub worker: WorkerId,
    /// Its node.
    pub node: Name,
    /// Its GPUs, one for each part of its ask; empty where the file leaves them open.
    pub spots: Vec<Spot>,
}

/// A GPU of a node, perhaps with the unit at which the slice starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Device index.
    pub gpu: u8,
    /// First memory unit of the slice; `None` where the file leaves it open.
    pub start: Option<u8>,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When.
    pub at: Millis,
    /// What.
    pub what: Happening,
}

/// What can happen beyond submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A node comes.
    AddNode(Node),
    /// A node is lost with everything on it.
    NodeDown(Name),
    /// A lost node comes back, empty.
    NodeUp(Name),
    /// A node takes no more work.
    Cordon(Name),
    /// A node takes work again.
    Uncordon(Name),
    /// A GPU can't be used any more.
    GpuDown(Name, u8),
    /// A GPU can be used again.
    GpuUp(Name, u8),
    /// A workload is no longer wanted.
    Cancel(Name),
    /// A workload, or one of its workers by index, ends by itself, its work done.
    Finish(Name, Option<u32>),
    /// A workload, or one of its workers by index, ends by itself with a failure.
    Fail(Name, Option<u32>),
}

/// What should hold at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Where the file says so.
    pub place: Place,
    /// When.
    pub at: When,
    /// What, each with its place.
    pub checks: Vec<(Place, Check)>,
}

/// One thing that should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A set of workloads is as said.
    Set(Set, Vec<Demand>),
    /// So many workers of the workload are placed.
    Workers(Name, Count),
    /// The workloads are not running, for this reason if one is given.
    Pending(Vec<Name>, Option<ReasonCode>),
    /// The workers of the workload are where the condition says.
    On(Name, Whereabouts),
    /// Exactly this is held on the GPU.
    Slices(Name, u8, Vec<Holding>),
    /// The GPU could take these profiles now, all together.
    Fits(Name, u8, Vec<String>),
    /// No worker of these workloads was told to leave.
    Untouched(Vec<Name>),
    /// So many workers were told to leave.
    Evictions(Count),
    /// So many workers were moved.
    Moves(Count),
    /// No eviction or move can be given back.
    Minimal,
    /// So many more plans decide nothing.
    Stable(u32),
}

/// A set of workloads that expectations speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Every group has its minimum placed.
    Running,
    /// Not running, not finished, not cancelled.
    Pending,
    /// A worker was told to leave, to end or to wait.
    Evicted,
    /// A worker was moved.
    Moved,
    /// It ended by itself.
    Finished,
}

/// A condition on a set of workloads; names are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All of these are in it.
    All(Vec<Name>),
    /// None but these are in it.
    Only(Vec<Name>),
    /// So many are in it, counted among these if given.
    Count(Count, Option<Vec<Name>>),
}

/// Where the workers of a workload should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// All on some of these nodes.
    Nodes(Vec<Name>),
    /// All in one domain of this level.
    Same(Name),
    /// No two in one domain of this level.
    Apart(Name),
    /// The GPUs of each worker within one group of this level of links.
    Link(Name),
}

/// Something held on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The whole GPU.
    Whole,
    /// An instance of this profile, at this unit if given.
    Instance(String, Option<u8>),
    /// A share of this much compute, GPU units.
    Compute(u32),
    /// A share of this much memory, MiB.
    Memory(u32),
}

/// A reason as one writes it: its word, perhaps with its object, such as `full gpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonCode {
    /// The word, such as `full`, `taint`, `no-board` or `waits`.
    pub word: String,
    /// What it is about; `None` for anything.
    pub about: Option<String>,
}

impl Scenario {
    /// The node, whether it is there from the start or comes later.
    pub fn node(&self, name: &str) -> Option<&Node> {
        if let Ok(at) = self.nodes.binary_search_by(|n| n.name.as_str().cmp(name)) {
            return Some(&self.nodes[at]);
        }
        self.events.iter().find_map(|event| match &event.what {
            Happening::AddNode(node) if node.name == *name => Some(node),
            _ => None,
        })
    }

    /// The workload, whenever it is submitted.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|w| w.name == *name)
    }
}
