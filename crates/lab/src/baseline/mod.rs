//! Published schedulers, restated as pure scores over a plain view of a node.
//!
//! Rules as in the authors' simulator (hkust-adsl/kubernetes-scheduler-simulator at 8f3d641):
//! filter by GPU model, CPU, memory and per-GPU room; score every node that is left, an integer
//! of 0 to 100; the highest wins and the first in the fleet's order among equals. Their runs put
//! the nodes in an order drawn anew from each run's seed; with coarse scores that order is part
//! of the rule, see [`Fleet::shuffled`].

pub mod bestfit;
pub mod board;
pub mod fgd;
mod fleet;
pub mod random;
pub mod whole;

#[cfg(test)]
mod tests;

pub use board::{Board, Placement};
pub use fleet::{Fleet, FleetError};

/// Thousandths in a whole GPU.
pub const GPU_MILLI: u16 = 1_000;

/// The GPU models a request may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Models {
    /// Place among the lists of models as they were written, in order of their text. FGD tells
    /// pods apart by that text, so that `A|B` and `B|A` are two kinds of pod.
    written: u16,
    /// The set itself; all ones for any, which includes nodes without GPUs.
    set: u64,
}

impl Models {
    /// Any model, and no GPU at all.
    pub const ANY: Self = Self {
        written: 0,
        set: u64::MAX,
    };
    /// Models a set can tell apart.
    pub const LIMIT: usize = 63;

    /// The set of these models, written as the list numbered `written` (from 1).
    ///
    /// # Panics
    /// If a model is [`Models::LIMIT`] or more.
    pub fn of(written: u16, models: impl IntoIterator<Item = u8>) -> Self {
        let bit = |model: u8| {
            let numbered = usize::from(model) < Self::LIMIT;
            assert!(numbered, "models are numbered below the limit");
            1u64 << model
        };
        let set = models.into_iter().fold(0, |set, model| set | bit(model));
        Self { written, set }
    }

    /// Whether a node with this model (none: no GPUs) may serve.
    pub fn allow(self, model: Option<u8>) -> bool {
        self.set == u64::MAX || model.is_some_and(|m| self.set >> m & 1 == 1)
    }
}

/// What one pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Thousandths of a vCPU.
    pub cpu_milli: u32,
    /// MiB of host memory.
    pub memory_mib: u32,
    /// GPUs, on one node.
    pub gpus: u16,
    /// Thousandths of each; 1,000 where more than one is asked, 0 where none is.
    pub gpu_milli: u16,
    /// Where it may run.
    pub models: Models,
}

impl Request {
    /// Thousandths of a GPU in all.
    pub fn total_gpu_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }

    /// Less than one GPU.
    pub fn is_share(&self) -> bool {
        self.gpus == 1 && self.gpu_milli < GPU_MILLI
    }
}

/// What is left on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Thousandths of a vCPU.
    pub cpu_milli: u32,
    /// MiB of host memory.
    pub memory_mib: u32,
    /// Its GPUs' model; none without GPUs.
    pub model: Option<u8>,
    /// Thousandths left of each GPU.
    pub gpu_milli: Vec<u16>,
}

impl Node {
    /// Whether the request can be placed here now.
    pub fn fits(&self, request: &Request) -> bool {
        self.cpu_milli >= request.cpu_milli
            && self.memory_mib >= request.memory_mib
            && request.models.allow(self.model)
            && self.holds(request)
    }

    /// Whether enough GPUs have room, CPU, memory and model aside.
    fn holds(&self, request: &Request) -> bool {
        let roomy = self
            .gpu_milli
            .iter()
            .filter(|&&left| left >= request.gpu_milli);
        request.gpus == 0 || roomy.count() >= usize::from(request.gpus)
    }

    /// Thousandths of a GPU left in all.
    pub fn total_gpu_milli(&self) -> u64 {
        self.gpu_milli.iter().map(|&left| u64::from(left)).sum()
    }
}

/// A rule that scores nodes and picks GPUs.
pub trait Policy {
    /// Tells what to expect: kinds of requests with how often each comes. Before the first score.
    fn expect(&mut self, _mix: &[(Request, u64)]) {}

    /// A new round begins, with its number: what a rule draws at random it draws from that.
    fn round(&mut self, _number: u64) {}

    /// What is set aside for a request; the request itself unless the policy rounds up.
    fn reserved(&self, request: &Request) -> Request {
        *request
    }

    /// How well a node that fits suits the (reserved) request; higher is better.
    fn score(&mut self, node: &Node, request: &Request) -> i16;

    /// The GPU of a node that fits which takes a share of one.
    fn gpu(&mut self, node: &Node, request: &Request) -> usize;

    /// The node among all, by score; none scores below 0 for "does not fit".
    fn pick(&mut self, scores: &[i16]) -> Option<usize> {
        let best = *scores.iter().max()?;
        scores.iter().position(|&s| s == best && s >= 0)
    }
}

/// The GPU with the least room that is enough: the tightest fit, the first among equals.
fn tightest(node: &Node, request: &Request) -> usize {
    let roomy = (node.gpu_milli.iter().enumerate()).filter(|(_, left)| **left >= request.gpu_milli);
    roomy
        .min_by_key(|(_, left)| **left)
        .expect("the node fits")
        .0
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn expect(&mut self, mix: &[(Request, u64)]) {
        (**self).expect(mix);
    }

    fn round(&mut self, number: u64) {
        (**self).round(number);
    }

    fn reserved(&self, request: &Request) -> Request {
        (**self).reserved(request)
    }

    fn score(&mut self, node: &Node, request: &Request) -> i16 {
        (**self).score(node, request)
    }

    fn gpu(&mut self, node: &Node, request: &Request) -> usize {
        (**self).gpu(node, request)
    }

    fn pick(&mut self, scores: &[i16]) -> Option<usize> {
        (**self).pick(scores)
    }
}
