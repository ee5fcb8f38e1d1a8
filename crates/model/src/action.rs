//! Actions: what was decided and must now be done, each with a name that a rebuild finds again.

use crate::{Millis, Name, WorkerId, lease::Hold};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an action is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// One worker.
    Worker(WorkerId),
    /// A node.
    Node(Name),
    /// One GPU of a node.
    Gpu(Name, u8),
    /// A pool or offer of capacity.
    Pool(Name),
}

/// What is done, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Cut, start.
    Place,
    /// Tell to leave, end, join.
    Evict,
}

/// The name of an action: unique for ever, found again by a rebuild from the same facts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionName {
    /// What it is about.
    pub subject: Subject,
    /// The attempt of the worker; 0 where there is none.
    pub attempt: u32,
    /// What is done.
    pub verb: Verb,
    /// Distinguishes repetitions within one attempt, from 0.
    pub n: u32,
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Place => "place",
            Verb::Evict => "evict",
        };
        match &self.subject {
            Subject::Worker(w) => write!(f, "{verb} {w}")?,
            Subject::Node(n) | Subject::Pool(n) => write!(f, "{verb} {n}")?,
            Subject::Gpu(n, i) => write!(f, "{verb} {n}/{i}")?,
        }
        write!(f, "#{}.{}", self.attempt, self.n)
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its name.
    pub name: ActionName,
    /// What exactly.
    pub what: What,
    /// Actions that must be done before this one may be sent.
    pub after: Vec<ActionName>,
    /// When it counts as overdue (absolute); it stays open even then.
    pub deadline: Millis,
    /// Why.
    pub cause: Cause,
}

/// What exactly is to be done. Later capabilities add variants here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Give the worker exactly this hold: cut what must be cut, verify, start.
    Place(Hold),
    /// Tell the worker to leave and end it after the grace.
    Evict {
        /// Milliseconds between telling and ending.
        grace_ms: Millis,
    },
}

/// Why something is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The worker asked for it.
    Ask,
    /// Its user cancelled it.
    User,
    /// Its node is leaving, or lost.
    Node(Name),
    /// Its gang can no longer reach its minimum.
    StaleGang,
    /// Room for this worker, placed by the same plan.
    Placement(WorkerId),
}

/// How far an action is. `Failed` and `Withdrawn` end it without effect on the books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// Decided, recorded, not yet told to anyone.
    Proposed,
    /// Told to the hands; they may or may not have heard.
    Sent,
    /// Sent and past its deadline: open until an observation settles it.
    Overdue,
}

/// Why an action failed, as the hands tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The device refused to cut; the device index says which.
    Cut(u8),
    /// The worker did not start.
    Start,
    /// The node no longer has what was promised.
    Stale,
    /// The node is gone.
    NodeGone,
}
