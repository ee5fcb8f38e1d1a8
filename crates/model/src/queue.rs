//! Queues: the tree of teams.

use crate::Name;
use serde::{Deserialize, Serialize};

/// A queue: a team's place in the tree, with what it is entitled to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: Name,
    /// Its parent; `None` at the top.
    pub parent: Option<Name>,
    /// Guaranteed amounts.
    pub quota: Amounts,
    /// Upper bounds; what is not named is unbounded.
    pub limit: Amounts,
    /// Share of what is left over, relative to its siblings.
    pub weight: u32,
    /// Who is served first when there is not enough.
    pub priority: i32,
}

/// Amounts per resource; `None` is not named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// GPU units.
    pub gpu: Option<u64>,
    /// Milli-cores.
    pub cpu_milli: Option<u64>,
    /// Bytes of host memory.
    pub memory_bytes: Option<u64>,
}
