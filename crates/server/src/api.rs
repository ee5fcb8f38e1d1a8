//! The API as types: JSON over HTTP on a Unix socket. Times are milliseconds since 1970 (UTC).
//!
//! | method and path | body | answer |
//! |---|---|---|
//! | `GET /v1/status` | | [`Status`] |
//! | `POST /v1/jobs` | [`Submission`] | [`Submitted`] |
//! | `GET /v1/jobs?all=&limit=` | | [`Jobs`] |
//! | `GET /v1/jobs/{name}` | | [`Detail`] |
//! | `GET /v1/jobs/{name}/wait?seen=` | | [`Row`], as soon as it differs from `seen` |
//! | `POST /v1/cancel` | [`Cancellation`] | [`Cancelled`] |
//! | `GET /v1/jobs/{name}/logs` | | the output: frames of `cleave_wire::stream`, or text |
//! | `GET /v1/jobs/{name}/attach` | | upgrade to frames in both directions |
//! | `GET /v1/gpus` | | [`Fleet`] |
//!
//! `logs` takes `worker`, `attempt`, `tail` (lines) and `follow`; `attach` takes `worker`.
//!
//! Everybody sees names, asks and states; commands, environments, directories and output are for
//! the owner of a job and for administrators. What is refused is answered by a status of 400 or
//! more and a [`Problem`].

use cleave_wire::job::{Bounds, Limit, Size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The media type of streams of frames.
pub const FRAMES: &str = "application/vnd.cleave.frames";
/// The protocol that `attach` upgrades to.
pub const UPGRADE: &str = "cleave-attach";

/// Why something was not done, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// In a sentence.
    pub error: String,
    /// Where in the job file, if it is about one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
}

/// Something wrong at a place of a job file, both numbers from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
    /// What, in a sentence.
    pub message: String,
}

/// Jobs to be run, all or none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// A job file: `cleave: 1` and `workloads` that say what they run.
    pub file: String,
    /// A number is added to each name, so that none is taken.
    #[serde(default)]
    pub number: bool,
    /// What the submitter's process looks like.
    pub surroundings: Surroundings,
}

/// What a job takes over from the process that submitted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surroundings {
    /// Environment; the file's `env` goes over it.
    pub env: BTreeMap<String, String>,
    /// Working directory, absolute; the file's `directory` is relative to it.
    pub directory: String,
    /// File mode creation mask.
    pub umask: u32,
    /// Resource limits.
    pub limits: BTreeMap<Limit, Bounds>,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<Size>,
}

/// What was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The names, in the order of the file.
    pub jobs: Vec<String>,
}

/// Jobs that are no longer wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// Their names.
    pub jobs: Vec<String>,
}

/// What came of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Those that are being ended.
    pub jobs: Vec<String>,
    /// Those that could not be, with the reason.
    pub refused: BTreeMap<String, String>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It has no place.
    Waiting,
    /// It has one; slices are cut and processes start.
    Starting,
    /// It runs, all of it or at least its minimum.
    Running,
    /// It was told to leave, or has ended and is being cleaned up.
    Ending,
    /// It is over, its work done.
    Done,
    /// It is over; a worker failed.
    Failed,
    /// It is over because somebody cancelled it.
    Cancelled,
}

impl Phase {
    /// Whether it stays so for ever.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A job as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Unique for ever.
    pub id: i64,
    /// Unique among those that are not over.
    pub name: String,
    /// Whose it is: a login name, or a number that has none.
    pub user: String,
    /// Its queue.
    pub queue: String,
    /// What it is for: serving, interactive, training, batch.
    pub class: String,
    /// Higher goes first.
    pub priority: i32,
    /// How far it is.
    pub phase: Phase,
    /// Workers wanted.
    pub workers: u32,
    /// Workers that run.
    pub running: u32,
    /// What each worker wants, as people write it; groups are joined by ` + `.
    pub ask: String,
    /// Where its workers are, as people write it: `n0 gpu0 1g.10gb@4`.
    pub places: Vec<String>,
    /// Why it is not running, in a phrase; empty when it is.
    pub reason: String,
    /// When it was submitted.
    pub submitted: u64,
    /// When its present attempt, or the last one, began to run.
    pub started: Option<u64>,
    /// When it was over.
    pub ended: Option<u64>,
    /// The exit code to go by: 0 when done, that of a failed worker otherwise.
    pub exit: Option<i32>,
}

/// A list of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// Those that are not over in the order in which they are served, then those that are over,
    /// latest first.
    pub jobs: Vec<Row>,
    /// How many there are that are not over, in each phase, whatever the limit.
    pub counts: BTreeMap<Phase, u64>,
    /// Now, by the server's clock.
    pub now: u64,
}

/// A job in full, as the caller may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// As everybody sees it.
    pub row: Row,
    /// Why it does not run, in sentences: the reason, then what there is and who holds it.
    pub why: Vec<String>,
    /// What it runs and where, for its owner and administrators.
    pub command: Option<Vec<String>>,
    /// Its working directory, likewise.
    pub directory: Option<String>,
    /// Its attempts, by worker, then number.
    pub attempts: Vec<Attempt>,
    /// Now, by the server's clock.
    pub now: u64,
}

/// One attempt of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The worker's index.
    pub worker: u32,
    /// The attempt's number; they grow, with gaps.
    pub attempt: u32,
    /// Its node.
    pub node: String,
    /// When its place was decided.
    pub placed: u64,
    /// When it began to run.
    pub started: Option<u64>,
    /// When what it held was free again.
    pub ended: Option<u64>,
    /// How it ended, in a phrase.
    pub outcome: Option<String>,
    /// Its exit code, if it ended by itself.
    pub exit: Option<i32>,
    /// What its agent had to say.
    pub note: Option<String>,
}

/// All GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// By name.
    pub nodes: Vec<Node>,
    /// Now, by the server's clock.
    pub now: u64,
}

/// A node and its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether its GPUs are only pretended.
    pub simulated: bool,
    /// Whether its agent answers.
    pub connected: bool,
    /// Whether it takes work, in a word: ready, cordoned, reclaiming, lost.
    pub health: String,
    /// Milli-cores in all.
    pub cpu_milli: u64,
    /// Milli-cores left.
    pub cpu_free_milli: u64,
    /// Bytes of memory in all.
    pub memory_bytes: u64,
    /// Bytes of memory left.
    pub memory_free_bytes: u64,
    /// By device index.
    pub gpus: Vec<Gpu>,
    /// What does not work there and how to enable it.
    pub notes: Vec<String>,
}

/// A GPU and what lies on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Device index.
    pub index: u8,
    /// Its board.
    pub board: String,
    /// Its memory.
    pub memory_mib: u32,
    /// Memory units of its line; 1 where it can't be cut.
    pub units: u8,
    /// How it is used: free, whole, shared, cut; or down where it can't be used.
    pub state: String,
    /// What lies on it.
    pub parts: Vec<Part>,
    /// Memory that nobody holds, MiB.
    pub free_mib: u32,
}

/// A part of a GPU that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Job and index of the worker.
    pub worker: String,
    /// Whose it is.
    pub user: String,
    /// What it is: `whole`, `1g.10gb@4`, `share 25 %`.
    pub slice: String,
    /// First memory unit, and how many; the whole line for shares of a whole GPU.
    pub start: u8,
    /// Memory units.
    pub size: u8,
    /// Its memory.
    pub memory_mib: u32,
    /// How far its holder is.
    pub phase: Phase,
}

/// How long decisions took: from facts to a plan, without the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Of how many.
    pub count: u64,
    /// Half of them took no longer, microseconds.
    pub p50_us: u64,
    /// 99 of a hundred took no longer.
    pub p99_us: u64,
    /// None took longer.
    pub max_us: u64,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its release.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Whether any of its nodes only pretends to have GPUs.
    pub simulated: bool,
    /// Where its journal is.
    pub directory: String,
    /// The last record.
    pub record: u64,
    /// Jobs that are not over.
    pub jobs: u64,
    /// Its agents: node name and whether it answers.
    pub agents: BTreeMap<String, bool>,
    /// How long the last decisions took.
    pub decisions: Pace,
    /// Whether the caller may touch the jobs of others.
    pub admin: bool,
    /// Now.
    pub now: u64,
}
