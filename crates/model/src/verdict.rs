//! Verdicts: why a workload does not run, as a typed value.
//!
//! A verdict names rule and object only; numbers that move with others' events are filled in by
//! the view that shows it.

use crate::{Name, WorkerId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the engine says of work that is not running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is placed: starting or running.
    Placed,
    /// It has a place as soon as these have left.
    WaitsFor(Vec<WorkerId>),
    /// Not now, for one dominant reason. Exact: nothing legal was overlooked.
    Not(Reason),
    /// Not found before the search budget ended.
    BudgetEnded(Reason),
}

/// The dominant reason of a refusal, ordered from "never" to "not at the moment": of several
/// that hold, the first says most. Later capabilities add variants here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// There are no nodes.
    NoNodes,
    /// No node has a board that the ask allows.
    NoBoard,
    /// No allowed board has this profile, or one that large.
    NoProfile,
    /// No allowed board can promise the isolation.
    NoIsolation,
    /// No node carries the selected label.
    NoLabel(Name),
    /// Every node that would do carries this taint.
    Taint(Name),
    /// Larger than any node that it may use, even when empty: this dimension.
    TooLarge(Dimension),
    /// Every node that would do is cordoned, leaving or lost.
    NodesClosed,
    /// No domain satisfies the affinity at this level.
    Affinity(Name),
    /// There is not enough left in all nodes that it may use: this dimension.
    Full(Dimension),
    /// There is enough in total but no single node has it together: this dimension is short
    /// on every node that has the rest.
    Scattered(Dimension),
    /// One worker fits, but not as many as the group needs at once.
    Gang(Name),
    /// It failed and waits before the next attempt.
    BackOff,
}

/// A thing that can be short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dimension {
    /// GPUs or parts of them.
    Gpu,
    /// Legal places for a slice on the cut GPUs.
    Slice,
    /// GPU memory.
    GpuMemory,
    /// Milli-cores.
    Cpu,
    /// Host memory.
    Memory,
    /// Places for workers.
    Pods,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpu => "GPUs",
            Self::Slice => "places for the slice",
            Self::GpuMemory => "GPU memory",
            Self::Cpu => "CPU",
            Self::Memory => "host memory",
            Self::Pods => "pod slots",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => write!(f, "there are no nodes"),
            Self::NoBoard => write!(f, "no node has a GPU of an allowed model"),
            Self::NoProfile => write!(f, "no allowed board has such a slice"),
            Self::NoIsolation => write!(f, "no allowed board can promise that isolation"),
            Self::NoLabel(key) => write!(f, "no node has the selected `{key}`"),
            Self::Taint(key) => write!(f, "every fitting node has taint `{key}`"),
            Self::TooLarge(d) => write!(f, "never: no allowed node has so much {d}"),
            Self::NodesClosed => write!(f, "every fitting node is cordoned or gone"),
            Self::Affinity(level) => write!(f, "no `{level}` satisfies the affinity"),
            Self::Full(d) => write!(f, "not enough {d} left"),
            Self::Scattered(d) => write!(f, "no single node has enough {d} left"),
            Self::Gang(group) => write!(f, "not all of group `{group}` fit at once"),
            Self::BackOff => write!(f, "waits after a failure"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed => write!(f, "placed"),
            Self::WaitsFor(who) => {
                write!(f, "waits for ")?;
                for (i, w) in who.iter().enumerate() {
                    write!(f, "{}{w}", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::Not(reason) => write!(f, "{reason}"),
            Self::BudgetEnded(reason) => write!(f, "{reason} (search budget ended)"),
        }
    }
}
