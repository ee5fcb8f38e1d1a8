//! Policy: every contested rule is a named switch with a documented default.

use crate::{Millis, ask::Isolation};
use serde::{Deserialize, Serialize};

/// The rules in force, with every default written out so that a journal needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Policy {
    /// What an ask by memory is promised where it says nothing.
    pub isolation_default: Isolation,
    /// Where the expected mix of asks comes from.
    pub mix: Mix,
    /// Prices are refined at the latest after so many arrivals, sooner as room runs out; 0: never.
    pub refine_every: u64,
    /// Refined prices take effect so many arrivals after they were asked for.
    pub refine_lag: u64,
    /// How long a placement may take before it is overdue, and how long what is left of a gang
    /// below its minimum keeps its places, for the missing workers to find one.
    pub start_deadline_ms: Millis,
    /// How long a worker has between being told to leave and being ended.
    pub grace_ms: Millis,
    /// A message to a node is repeated when nothing was heard for so long.
    pub resend_after_ms: Millis,
    /// Wait after the first failed start, or failure that is retried; doubles with each, up to
    /// `back_off_max_ms`.
    pub back_off_ms: Millis,
    /// Longest wait after a failed start.
    pub back_off_max_ms: Millis,
    /// A GPU that failed to cut so many times in a row is withheld.
    pub quarantine_after: u32,
}

/// Where the expected mix of asks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// From the arrivals so far.
    Learned,
    /// From a distribution given beforehand.
    Prior,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            isolation_default: Isolation::Hard,
            mix: Mix::Learned,
            refine_every: 1000,
            refine_lag: 10,
            start_deadline_ms: 300_000,
            grace_ms: 30_000,
            resend_after_ms: 15_000,
            back_off_ms: 10_000,
            back_off_max_ms: 300_000,
            quarantine_after: 3,
        }
    }
}
