//! What a journal must be.

use std::fmt;

/// A journal that can't be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadJournal {
    /// A record is missing or out of order.
    Gap {
        /// The number that should have come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A record is earlier than the one before it.
    Backwards {
        /// Its number.
        number: u64,
    },
}

impl fmt::Display for BadJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, found } => write!(
                f,
                "journal: record {expected} is missing, {found} follows: restore the journal \
                 from its copy"
            ),
            Self::Backwards { number } => {
                write!(
                    f,
                    "journal: record {number} is earlier than the one before it"
                )
            }
        }
    }
}

impl std::error::Error for BadJournal {}
