//! A kind of ask, as pricing tells asks apart.

use serde::{Deserialize, Serialize};

/// Index of a board in the caller's list of boards.
pub type BoardIx = u16;

/// What an ask takes of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// The whole GPU.
    Whole,
    /// A share of a GPU that is not cut.
    Share {
        /// Compute, in units of which a GPU has [`cleave_model::units::GPU`].
        units: u32,
        /// Memory in MiB.
        memory_mib: u32,
    },
    /// An instance of the profile with this index in the board's list of profiles.
    Slice(u16),
}

/// A distinct ask as pricing sees it. Host memory and labels are not priced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// CPU in milli-cores, of one node.
    pub cpu_milli: u32,
    /// How many parts, all on one node; 0 = no GPU at all.
    pub count: u16,
    /// The weight of one part in GPU units (its nominal price).
    pub units: u32,
    /// The boards that will do, in ascending order, and what the ask takes there of each GPU.
    pub on: Vec<(BoardIx, Part)>,
}

impl Kind {
    /// The part taken of a GPU of `board`, if that board will do.
    pub fn part_on(&self, board: BoardIx) -> Option<Part> {
        let at = self.on.binary_search_by_key(&board, |(b, _)| *b).ok()?;
        Some(self.on[at].1)
    }
}
