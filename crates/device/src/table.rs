//! The hands' durable table: what they know after a crash.

use cleave_model::{
    Millis, Name, WorkerId,
    action::Failure,
    board::Instance,
    lease::{Hold, Slice},
    observation::{Exit, MessageNo, WorkerState},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One attempt of one worker. Ordered by worker, then attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    /// The worker.
    pub worker: WorkerId,
    /// Which attempt of it, from 1.
    pub attempt: u32,
}

/// What the table says of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What it was given.
    pub hold: Hold,
    /// How far it is.
    pub stage: Stage,
}

/// How far an attempt is. A stage is durable before anything is done because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Its slices are being made.
    Preparing,
    /// Its process may exist.
    Starting,
    /// Its process runs.
    Running,
    /// Its process was told to leave.
    Stopping {
        /// How long it has from being told, milliseconds.
        grace_ms: Millis,
    },
    /// It has no process; its slices are being unmade.
    Ended(Exit),
    /// It never had a process; its slices are being unmade.
    Failing(Failure),
    /// Over, nothing held.
    Freed(Exit),
    /// Over without a process, nothing held.
    Failed(Failure),
}

impl Stage {
    /// Whether its slices must stay.
    pub fn is_live(self) -> bool {
        self.has_process() || self == Self::Preparing
    }

    /// Whether its process may exist.
    pub fn has_process(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping { .. })
    }

    /// Whether it holds nothing any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Freed(_) | Self::Failed(_))
    }

    /// As the control plane is told.
    pub fn reported(self) -> WorkerState {
        match self {
            Self::Preparing | Self::Starting | Self::Failing(_) => WorkerState::Preparing,
            Self::Running => WorkerState::Running,
            Self::Stopping { .. } => WorkerState::Stopping,
            Self::Ended(exit) => WorkerState::Ended(exit),
            Self::Freed(exit) => WorkerState::Freed(exit),
            Self::Failed(failure) => WorkerState::Failed(failure),
        }
    }
}

/// An instance that the hands made, are making or are unmaking.
///
/// It is recorded without a UUID before it is created, when its place was seen empty; so one found
/// there later is ours. With a UUID, only an instance of that UUID is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Its place.
    pub instance: Instance,
    /// The UUID of its compute instance once that is known.
    pub uuid: Option<Name>,
}

/// One line of the table; a later line about the same thing replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The hands were started so many times.
    Starts(u64),
    /// The last message obeyed.
    Heard(MessageNo),
    /// An attempt as it stands; `None`: forgotten.
    Attempt(AttemptId, Option<Attempt>),
    /// The cut that begins at this memory unit of this GPU; `None`: there is none.
    Cut {
        /// Device index.
        gpu: u8,
        /// First memory unit.
        start: u8,
        /// What is there.
        cut: Option<Cut>,
    },
}

/// The table in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// How often the hands were started.
    pub starts: u64,
    /// The last message obeyed.
    pub heard: MessageNo,
    /// Every attempt not yet forgotten.
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// The cuts, by device index and first memory unit.
    pub cuts: BTreeMap<(u8, u8), Cut>,
}

impl Table {
    /// Takes in one line.
    pub fn apply(&mut self, record: Record) {
        fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        match record {
            Record::Starts(starts) => self.starts = starts,
            Record::Heard(heard) => self.heard = heard,
            Record::Attempt(id, attempt) => put(&mut self.attempts, id, attempt),
            Record::Cut { gpu, start, cut } => put(&mut self.cuts, (gpu, start), cut),
        }
    }

    /// The shortest list of lines that leads to this table.
    pub fn records(&self) -> Vec<Record> {
        let attempts = self.attempts.iter();
        let cuts = self.cuts.iter();
        [Record::Starts(self.starts), Record::Heard(self.heard)]
            .into_iter()
            .chain(attempts.map(|(id, of)| Record::Attempt(id.clone(), Some(of.clone()))))
            .chain(cuts.map(|(&(gpu, start), cut)| Record::Cut {
                gpu,
                start,
                cut: Some(cut.clone()),
            }))
            .collect()
    }

    /// Slices that attempts hold, with whose they are; those that are over hold none.
    pub fn held(&self) -> impl Iterator<Item = (&AttemptId, &Attempt, &Slice)> {
        let holding = self.attempts.iter().filter(|(_, of)| !of.stage.is_over());
        holding.flat_map(|(id, of)| of.hold.slices.iter().map(move |slice| (id, of, slice)))
    }
}
