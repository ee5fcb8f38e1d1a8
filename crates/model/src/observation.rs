//! Observations: the outside told as the whole state of one object.

use crate::{
    Name, WorkerId,
    action::{ActionName, Failure},
};
use serde::{Deserialize, Serialize};

/// Position of a message from a control plane to a node's hands. Hands ignore what is not
/// newer than the last they heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageNo {
    /// Start of the control plane that sent it.
    pub incarnation: u64,
    /// Number within that incarnation.
    pub number: u64,
}

/// Everything a node's hands know, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub node: Name,
    /// Start of the hands, then a count: older reports are dropped.
    pub seq: (u64, u64),
    /// The last message that this report reflects.
    pub heard: MessageNo,
    /// Every attempt in the hands' durable table.
    pub workers: Vec<WorkerReport>,
    /// GPUs that can't be used, by device index.
    pub sick: Vec<u8>,
}

/// One attempt as the hands know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The worker.
    pub worker: WorkerId,
    /// The attempt.
    pub attempt: u32,
    /// How far it is.
    pub state: WorkerState,
}

/// How far an attempt is on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerState {
    /// Cutting and starting.
    Preparing,
    /// Running.
    Running,
    /// Told to leave, still there.
    Stopping,
    /// Ended; its slices are still being cleaned up.
    Ended(Exit),
    /// Ended and everything it held is free again.
    Freed(Exit),
    /// Could not be prepared; everything it held is free again.
    Failed(Failure),
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, its work done.
    Done,
    /// By itself, with a failure (exit code).
    Error(i32),
    /// Because it was told to.
    Evicted,
    /// With its node.
    Lost,
}

/// An early hint of what an action led to; folding it twice or late changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionResult {
    /// The action.
    pub action: ActionName,
    /// What came of it.
    pub outcome: Result<(), Failure>,
}
