//! Asks: what one worker wants, in its own words. Policy and board turn an ask into slices.

use crate::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one worker wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ask {
    /// Milli-cores.
    pub cpu_milli: u64,
    /// Host memory in bytes.
    pub memory_bytes: u64,
    /// GPUs or parts of them; none for work on CPUs alone.
    pub gpus: Option<Gpus>,
    /// Where it may and may not run.
    pub limits: Constraints,
}

/// GPUs or parts of GPUs that one worker wants, all alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gpus {
    /// How many. Whole GPUs and shares lie on different GPUs; slices by profile may share one.
    pub count: u32,
    /// What of each.
    pub part: Part,
    /// What the tenant must be promised.
    pub isolation: Isolation,
    /// Boards or families of boards it may run on, in tiers of equally welcome ones, best tier
    /// first; empty: any board.
    pub models: Vec<Vec<Name>>,
    /// Whether it must be able to draw (graphics-capable profiles only).
    pub graphics: bool,
}

/// A part of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A whole GPU.
    Whole,
    /// A slice by the name of its profile, such as `1g.10gb`.
    Profile(Name),
    /// A part by size. At least one coordinate is named; the other follows from it on each
    /// board, as the same fraction, rounded down so that parts of one GPU never sum to more.
    Share {
        /// Compute in GPU units (`units::GPU` is a whole GPU).
        compute: Option<u32>,
        /// GPU memory in MiB.
        memory_mib: Option<u32>,
    },
}

/// What a tenant is promised. Ordered: a stronger promise serves a weaker wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Nothing beyond turns (time-slicing).
    None,
    /// An enforced memory cap (MPS, time-sliced vGPU).
    Limited,
    /// Own memory, faults and bandwidth (whole GPU, MIG, AMD partition, passthrough).
    Hard,
}

/// Where a worker may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Constraints {
    /// Node labels that must have these values.
    pub select: BTreeMap<Name, Name>,
    /// Taint keys that are tolerated; `*` is spelled `all`.
    pub tolerate: Vec<Name>,
    /// Workloads whose domain must be shared (`near`) or avoided (`apart`).
    pub affinity: Vec<Affinity>,
}

/// Attraction to, or distance from, the workers of other workloads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Affinity {
    /// Be in the same domain, or in another one.
    pub kind: AffinityKind,
    /// Label key that makes the domains; `host` is the node itself.
    pub level: Name,
    /// The workloads meant; the ask's own workload may be among them.
    pub with: Vec<Name>,
}

/// The two directions of [`Affinity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AffinityKind {
    /// In a domain where one of them runs.
    Near,
    /// In no domain where one of them runs.
    Apart,
}
