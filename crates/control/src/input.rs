//! What goes in and what comes out.

use cleave_model::{
    Millis, Name,
    ask::Ask,
    board::Board,
    event::Batch,
    message::Message,
    node::{Health, Node},
    observation::{ActionResult, NodeReport, WorkerReport},
    policy::Policy,
    prices::Prices,
    queue::Queue,
    workload::Workload,
};
use std::fmt;

/// Something that reached the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody wants something; the answer goes to `from`, a token of the shell's choice.
    Request {
        /// Whom to answer.
        from: u64,
        /// What is wanted.
        request: Request,
    },
    /// A node told everything that its hands know.
    Report(NodeReport),
    /// One attempt was seen in this state, where a backend watches attempts one by one. The
    /// states of an attempt only advance; earlier ones change nothing.
    Attempt(WorkerReport),
    /// An early hint of what the next report will say.
    Result(ActionResult),
    /// The prices that were asked for by [`Deed::Refine`].
    Refined {
        /// The count that the effect named.
        asked_at: u64,
        /// The answer.
        prices: Prices,
    },
}

/// What somebody may want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// These rules from now on.
    Policy(Policy),
    /// This board from now on.
    Board(Board),
    /// A queue comes or changes.
    Queue(Queue),
    /// A node comes or changes.
    Node(Node),
    /// A GPU is taken out of service (`true`) or back into it, by hand.
    Gpu(Name, u8, bool),
    /// A node is cordoned, opened, reclaimed or given up for lost.
    NodeHealth(Name, Health),
    /// A node is known to be gone, and nothing on it runs any more.
    NodeGone(Name),
    /// New work.
    Submit(Workload),
    /// Work is no longer wanted.
    Cancel(Name),
    /// The distribution of asks to expect.
    Prior(Vec<(Ask, u64)>),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Other work has this name.
    NameTaken(Name),
    /// There is no such queue.
    NoQueue(Name),
    /// The workload has no groups, or a group has no workers.
    NoWorkers(Name),
    /// More workers than can be numbered.
    TooManyWorkers(Name),
    /// A group's minimum is 0 or more than its workers; workload and group.
    BadMinimum(Name, Name),
    /// Two groups have the same name; workload and group.
    GroupTwice(Name, Name),
    /// There is no such workload, or it is finished.
    NoWorkload(Name),
    /// There is no such node.
    NoNode(Name),
    /// The node has no such GPU.
    NoGpu(Name, u8),
    /// A queue would be its own ancestor.
    QueueLoop(Name),
    /// The board breaks its own rules.
    BadBoard(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => {
                write!(
                    f,
                    "other work is named `{name}`: choose another name or cancel it first"
                )
            }
            Self::NoQueue(name) => write!(f, "there is no queue `{name}`: create it first"),
            Self::NoWorkers(name) => {
                write!(
                    f,
                    "workload `{name}` has a group without workers: ask for 1 or more"
                )
            }
            Self::TooManyWorkers(name) => {
                write!(f, "workload `{name}` has too many workers: split it")
            }
            Self::BadMinimum(name, group) => write!(
                f,
                "group `{group}` of workload `{name}`: the minimum must be from 1 to its workers"
            ),
            Self::GroupTwice(name, group) => {
                write!(f, "workload `{name}` has two groups `{group}`: rename one")
            }
            Self::NoWorkload(name) => {
                write!(f, "there is no unfinished workload `{name}`")
            }
            Self::NoNode(name) => write!(f, "there is no node `{name}`"),
            Self::NoGpu(name, gpu) => write!(f, "node `{name}` has no GPU {gpu}"),
            Self::QueueLoop(name) => {
                write!(
                    f,
                    "queue `{name}` would be its own ancestor: choose another parent"
                )
            }
            Self::BadBoard(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What a closed batch leaves to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Records to be committed together and in this order, before [`crate::Control::durable`]
    /// is told of the last of them. Empty: nothing happened.
    pub records: Vec<Batch>,
    /// When to close again even if nothing comes in.
    pub wake: Option<Millis>,
}

/// Something to be done outside once a record is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The number of the record that it waits for.
    pub after: u64,
    /// What is to be done.
    pub what: Deed,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Tell a node's hands; messages to one node go out in the order of their numbers.
    Send {
        /// The node.
        node: Name,
        /// What to tell them.
        message: Message,
    },
    /// Answer whoever asked.
    Answer {
        /// The token that came with the request.
        to: u64,
        /// Whether it was taken.
        reply: Result<(), Refusal>,
    },
    /// Refine the prices on the state as of the record that the effect waits for, beside the
    /// loop, and bring them back as [`Input::Refined`].
    Refine {
        /// The count of arrivals at which they were asked for; names the answer.
        asked_at: u64,
    },
}
