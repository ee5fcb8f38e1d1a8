//! What is to be run, in full. Nobody but its owner, its agent and root sees all of it.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// What a worker of a job runs, and as whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Whose it is: the user id of the submitter's end of the socket.
    pub uid: u32,
    /// Primary group; an agent takes it only if the user is in it.
    pub gid: u32,
    /// What to run; many jobs of one submission share it.
    pub run: Arc<Run>,
    /// How many workers the workload has in all.
    pub workers: u32,
    /// Its index in its array, if it is of one.
    pub array: Option<u32>,
}

/// What the submitter says of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Command and arguments; the first is found through the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment; the agent adds its own variables.
    pub env: BTreeMap<String, String>,
    /// Absolute path of the working directory.
    pub directory: String,
    /// File mode creation mask.
    pub umask: u32,
    /// Resource limits, never above those of the agent.
    pub limits: BTreeMap<Limit, Bounds>,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<Size>,
}

/// A resource that `setrlimit` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Size of a core file, bytes.
    Core,
    /// CPU time, seconds.
    Cpu,
    /// Size of the data segment, bytes.
    Data,
    /// Size of files written, bytes.
    FileSize,
    /// Locked memory, bytes.
    LockedMemory,
    /// Open files.
    OpenFiles,
    /// Processes of the user.
    Processes,
    /// Size of the stack, bytes.
    Stack,
    /// Address space, bytes.
    AddressSpace,
}

/// Bounds of one resource; `None` is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// What is enforced.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}
