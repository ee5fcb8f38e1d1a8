//! Workloads: what people submit.

use crate::{Millis, Name, ask::Ask};
use serde::{Deserialize, Serialize};

/// One submitted thing: groups of workers that run together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name, unique among workloads that are not finished.
    pub name: Name,
    /// Whose it is.
    pub queue: Name,
    /// What it is for.
    pub class: Class,
    /// Higher goes first.
    pub priority: i32,
    /// Its workers, in groups of equal ones; at least one group.
    pub groups: Vec<Group>,
    /// When it was submitted; its age counts from here over all attempts.
    pub submitted: Millis,
    /// How long one attempt is expected to run, if known.
    pub duration: Option<Millis>,
    /// How often each worker is tried again after it ended by itself with a failure.
    pub retries: u32,
}

/// Workers that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name within the workload.
    pub name: Name,
    /// How many are wanted.
    pub workers: u32,
    /// How many must run together for any to run; at most `workers`, at least 1.
    pub min: u32,
    /// What each wants.
    pub ask: Ask,
}

/// What a workload is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Answers requests.
    Serving,
    /// A person works in it.
    Interactive,
    /// Trains a model.
    Training,
    /// Anything that can wait.
    Batch,
}

impl Workload {
    /// How many workers it wants in all.
    pub fn workers(&self) -> u32 {
        self.groups.iter().map(|g| g.workers).sum()
    }

    /// The group of the worker at `index`, and the group's first index.
    pub fn group_of(&self, index: u32) -> Option<(&Group, u32)> {
        let mut first = 0;
        for group in &self.groups {
            if index < first + group.workers {
                return Some((group, first));
            }
            first += group.workers;
        }
        None
    }
}
