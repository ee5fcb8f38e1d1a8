//! Leases: one worker's hold on its part of a node, for one attempt.

use crate::{Millis, Name, WorkerId, board::Instance};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What one worker holds on one node. At most one lease per slice, ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub worker: WorkerId,
    /// Which attempt of the worker; only ever grows, and fences everything older.
    pub attempt: u32,
    /// Where and what.
    pub hold: Hold,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is in this phase.
    pub since: Millis,
}

/// A part of a node: host resources, one place for a worker, and slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hold {
    /// The node.
    pub node: Name,
    /// Milli-cores.
    pub cpu_milli: u64,
    /// Bytes of host memory.
    pub memory_bytes: u64,
    /// Slices; empty for work on CPUs alone.
    pub slices: Vec<Slice>,
}

/// A part of one GPU, as a path: GPU, then perhaps an instance, then perhaps a share.
/// With neither it is the whole GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slice {
    /// Device index on the node.
    pub gpu: u8,
    /// The instance cut from it.
    pub instance: Option<Instance>,
    /// The share of the GPU, or of the instance.
    pub share: Option<Share>,
}

/// A share of a GPU or of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Share {
    /// Compute in units of a whole GPU.
    pub compute: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// How the sharers are kept apart; all sharers of one GPU or instance alike.
    pub by: Sharing,
}

/// Ways in which shares of one GPU or instance live together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Turns; promises nothing.
    TimeSlice,
    /// An MPS daemon with a memory cap and a thread percentage; promises the cap.
    Mps,
}

/// How far a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Decided; nothing has been asked of the node yet.
    Promised,
    /// The node is cutting and starting.
    Preparing,
    /// The worker runs.
    Running,
    /// The worker was told to leave, or ended and is being cleaned up.
    Draining,
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu{}", self.gpu)?;
        if let Some(i) = self.instance {
            write!(f, "/{}@{}", i.profile.0, i.start)?;
        }
        if let Some(s) = self.share {
            write!(f, "/{}u+{}MiB", s.compute, s.memory_mib)?;
        }
        Ok(())
    }
}
