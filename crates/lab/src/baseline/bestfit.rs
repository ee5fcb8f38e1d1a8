//! Best fit over CPU and GPU together, the authors' `BestFitScore` with `-gpusel best`.

use super::{Node, Policy, Request, tightest};

/// The largest node they normalise by: 128 vCPU and 8 GPUs.
const MAX_CPU_MILLI: f64 = 128_000.0;
const MAX_GPU_MILLI: f64 = 8_000.0;

/// The fuller the node would be, the better: 100 × (1 − half the CPU left over 128 vCPU − half
/// the GPU left over 8), cut to an integer. A share goes to the tightest GPU, whole GPUs to the
/// first empty ones. (They then stretch the scores to 0..100, which changes no comparison.)
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFit;

impl Policy for BestFit {
    fn score(&mut self, node: &Node, request: &Request) -> i16 {
        let cpu = f64::from(node.cpu_milli - request.cpu_milli) / MAX_CPU_MILLI * 0.5;
        let gpu = (node.total_gpu_milli() - request.total_gpu_milli()) as f64 / MAX_GPU_MILLI * 0.5;
        // Larger nodes than theirs would score below 0, which means "does not fit".
        ((1.0 - (cpu + gpu)) * 100.0).max(0.0) as i16
    }

    fn gpu(&mut self, node: &Node, request: &Request) -> usize {
        tightest(node, request)
    }
}
