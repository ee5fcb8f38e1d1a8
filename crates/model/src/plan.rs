//! Plans: a planner's output.

use crate::{
    Millis, Name,
    action::{Action, ActionName},
    verdict::Verdict,
};
use serde::{Deserialize, Serialize};

/// What a planner decided over one state at one `now`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// New actions, in the order in which they were decided.
    pub actions: Vec<Action>,
    /// Open actions not yet sent that are taken back.
    pub withdrawn: Vec<ActionName>,
    /// Verdicts that changed, once per class of equal work.
    pub verdicts: Vec<VerdictChange>,
    /// When to be called again even if nothing happens.
    pub wake_at: Option<Millis>,
    /// Where the search stood when its budget ended; the next plan goes on behind it.
    pub truncated: Option<Cursor>,
    /// Logical work done: asks, domains and victim sets tried.
    pub steps: u64,
}

/// A verdict for all work that is not placed and equal to `like`: same queue, class, priority,
/// groups and asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictChange {
    /// Any workload of the class.
    pub like: Name,
    /// What is said of it.
    pub verdict: Verdict,
}

/// A place in the order of waiting work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The last workload that was tried.
    pub last: Name,
}

impl Plan {
    /// Whether the plan changes nothing.
    pub fn is_idle(&self) -> bool {
        self.actions.is_empty() && self.withdrawn.is_empty() && self.verdicts.is_empty()
    }
}

/// How much logical work a plan may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Steps; duties are never cut short.
    pub steps: u64,
}

impl Budget {
    /// No bound.
    pub const UNBOUNDED: Self = Self { steps: u64::MAX };
}
