//! Static hand-out of whole GPUs: what a cluster does that cannot share one.

use super::bestfit::BestFit;
use super::{GPU_MILLI, Node, Policy, Request};

/// Every share takes a whole GPU; nodes by best fit. What counts as allocated stays what was
/// *asked*, so the rest of each such GPU is waste.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeGpus;

impl Policy for WholeGpus {
    fn reserved(&self, request: &Request) -> Request {
        Request {
            gpu_milli: if request.gpus > 0 { GPU_MILLI } else { 0 },
            ..*request
        }
    }

    fn score(&mut self, node: &Node, request: &Request) -> i16 {
        BestFit.score(node, request)
    }

    fn gpu(&mut self, node: &Node, request: &Request) -> usize {
        BestFit.gpu(node, request)
    }
}
