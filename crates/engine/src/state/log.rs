//! What changed lately, so that working copies can follow without copying everything.

use crate::inventory::NodeIx;
use std::collections::VecDeque;

/// How many changes are remembered; who is further behind starts afresh.
const REMEMBERED: usize = 1 << 16;

/// A bounded log of changed nodes, with counters that tell what kind of thing changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    forgotten: u64,
    log: VecDeque<NodeIx>,
    shape: u64,
    fitness: u64,
    grown: u64,
}

impl Changes {
    /// Position behind the latest change.
    pub fn end(&self) -> u64 {
        self.forgotten + self.log.len() as u64
    }

    /// The nodes changed since `position`, repetitions included; `None` if that is forgotten.
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = NodeIx> + '_> {
        let skip = position.checked_sub(self.forgotten)?;
        Some(self.log.iter().skip(skip as usize).copied())
    }

    /// Counts changes to which nodes there are, how they are described, and to the boards.
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// Counts changes to which nodes there are, and to which of them and of their GPUs are in
    /// order.
    pub fn fitness(&self) -> u64 {
        self.shape + self.fitness
    }

    /// Counts changes after which something may fit that did not fit before.
    pub fn grown(&self) -> u64 {
        self.grown
    }

    pub(super) fn node(&mut self, ix: NodeIx) {
        if self.log.len() == REMEMBERED {
            self.log.pop_front();
            self.forgotten += 1;
        }
        self.log.push_back(ix);
    }

    pub(super) fn grow(&mut self) {
        self.grown += 1;
    }

    pub(super) fn refit(&mut self) {
        self.fitness += 1;
    }

    pub(super) fn reshape(&mut self) {
        self.shape += 1;
        self.grown += 1;
    }
}
