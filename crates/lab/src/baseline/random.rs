//! Any node that fits, any of its GPUs that fits: the authors' `RandomScore`, `-gpusel random`.

use super::{Node, Policy, Request};
use crate::random::SplitMix64;

/// Draws evenly, first the node, then for a share the GPU; whole GPUs are the first empty ones.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    draws: SplitMix64,
}

impl Random {
    /// A policy whose draws follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let draws = SplitMix64::new(seed);
        Self { seed, draws }
    }
}

impl Policy for Random {
    fn round(&mut self, number: u64) {
        let mut rounds = SplitMix64::new(number);
        self.draws = SplitMix64::new(self.seed ^ rounds.next_u64());
    }

    fn score(&mut self, _: &Node, _: &Request) -> i16 {
        0
    }

    fn gpu(&mut self, node: &Node, request: &Request) -> usize {
        let roomy = |left: &u16| *left >= request.gpu_milli;
        let count = node.gpu_milli.iter().filter(|left| roomy(left)).count();
        let chosen = self.draws.below(count);
        let mut gpus = node
            .gpu_milli
            .iter()
            .enumerate()
            .filter(|(_, left)| roomy(left));
        gpus.nth(chosen).expect("drawn among them").0
    }

    fn pick(&mut self, scores: &[i16]) -> Option<usize> {
        let count = scores.iter().filter(|&&s| s >= 0).count();
        let chosen = (count > 0).then(|| self.draws.below(count))?;
        let mut fits = scores.iter().enumerate().filter(|(_, s)| **s >= 0);
        fits.nth(chosen).map(|(node, _)| node)
    }
}
