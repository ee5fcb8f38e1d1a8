//! Bid prices as they are recorded, and the kinds of asks that they are told by.

use crate::lease::Sharing;
use serde::{Deserialize, Serialize};

/// Index of a board in the caller's list of boards.
pub type BoardIx = u16;

/// What an ask takes of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// The whole GPU.
    Whole,
    /// A share of a GPU that is not cut.
    Share {
        /// Compute, in units of which a GPU has [`crate::units::GPU`].
        units: u32,
        /// Memory in MiB.
        memory_mib: u32,
        /// Shares of one GPU all live together in the same way.
        by: Sharing,
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

/// A kind and how much of the arrivals it is expected to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Demand {
    /// The kind.
    pub kind: Kind,
    /// Its weight among the arrivals, such as how often it was seen. Any scale.
    pub weight: u64,
}

/// What is remembered of one kind between steps of the refinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iterate {
    /// The bid that steps act on, 2^-20 milli-GPU.
    pub bid: i64,
    /// Its running average, by which work is placed, 2^-20 milli-GPU.
    pub average: i64,
    /// The running average of the planned supply, 2^-16 asks; negative before the first step.
    pub planned: i64,
}

/// Bid prices with all that the next refinement needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// The kinds that are priced, and the mix they were priced for.
    pub demands: Vec<Demand>,
    /// One for each of `demands`.
    pub iterates: Vec<Iterate>,
    /// Steps made so far.
    pub steps: u32,
}

impl Prices {
    /// The bids by which work is placed, 2^-20 milli-GPU.
    pub fn bids(&self) -> Vec<i64> {
        self.iterates
            .iter()
            .map(|iterate| iterate.average)
            .collect()
    }

    /// Share of each kind in the arrivals, 2^-32.
    pub fn shares(&self) -> Vec<i64> {
        let total: u128 = self
            .demands
            .iter()
            .map(|demand| u128::from(demand.weight))
            .sum();
        self.demands
            .iter()
            .map(|demand| share(demand.weight, total))
            .collect()
    }
}

/// `part` of `whole` in 2^-32, rounded down.
fn share(part: u64, whole: u128) -> i64 {
    // Mostly half as many bits will do, which are divided many times as fast.
    match (u32::try_from(part), u64::try_from(whole)) {
        (Ok(part), Ok(whole)) => ((u64::from(part) << 32) / whole.max(1)) as i64,
        _ => ((u128::from(part) << 32) / whole.max(1)) as i64,
    }
}
