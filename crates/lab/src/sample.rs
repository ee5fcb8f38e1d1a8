//! The traces that ship with the project: made up, by declared parameters. A node list and a pod
//! list in openb's format, and a job list.
//!
//! A campus cluster of some thousand GPUs of six boards. Work is what such clusters report:
//! mostly single GPUs and parts of them, few large gangs, some that name a model, CPU asks in
//! proportion to the part of a GPU with a heavy tail, so that cores run short on some nodes.

use crate::random::SplitMix64;
use std::fmt::Write;

/// Nodes of each kind: how many, cores, GiB, GPUs, board.
const NODES: [(usize, u32, u32, u32, &str); 6] = [
    (150, 128, 1024, 8, "H100-80GB-SXM"),
    (120, 96, 768, 8, "A100-80GB"),
    (60, 64, 384, 4, "A10"),
    (90, 48, 256, 4, "T4"),
    (40, 64, 512, 8, "V100M32"),
    (25, 32, 128, 2, "V100M16"),
];

/// Out of a thousand asks: how many, GPUs, thousandths of each.
const PARTS: [(u64, u32, u32); 14] = [
    (90, 0, 0),
    (60, 1, 100),
    (50, 1, 150),
    (70, 1, 200),
    (80, 1, 250),
    (30, 1, 330),
    (30, 1, 460),
    (70, 1, 500),
    (40, 1, 700),
    (60, 1, 810),
    (370, 1, 1000),
    (22, 2, 1000),
    (16, 4, 1000),
    (12, 8, 1000),
];

/// Every so many asks, one names these models.
const MODELS: [(usize, &str); 4] = [
    (19, "H100-80GB-SXM"),
    (23, "A100-80GB|H100-80GB-SXM"),
    (29, "T4"),
    (31, "V100M32|V100M16"),
];

/// Cores per GPU's worth, and how likely: most are modest, some are hungry.
const CORES_PER_GPU: [u32; 8] = [4, 8, 8, 10, 12, 12, 16, 24];

/// Out of a hundred jobs: how many, GPUs of each worker, workers.
const JOBS: [(usize, &str, u32); 8] = [
    (8, "0.25", 1),
    (8, "0.5", 1),
    (46, "1", 1),
    (12, "2", 1),
    (12, "4", 1),
    (9, "8", 1),
    (3, "8", 2),
    (2, "8", 4),
];

/// Minutes that a job runs, each as likely.
const MINUTES: [usize; 12] = [2, 5, 10, 20, 30, 45, 60, 90, 120, 240, 480, 960];

/// Jobs come this many seconds apart on average, so that they want 61 GPUs at any time.
const GAP_S: usize = 522;

const TEAMS: [&str; 4] = ["biology", "language", "physics", "vision"];

/// The node list as CSV.
pub fn nodes() -> String {
    let mut out = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
    let mut number = 0;
    for (count, cores, gib, gpus, board) in NODES {
        for _ in 0..count {
            let (cpu, memory) = (cores * 1000, gib * 1024);
            let _ = writeln!(out, "campus-{number:04},{cpu},{memory},{gpus},{board}");
            number += 1;
        }
    }
    out
}

/// A list of asks that together want about as many GPUs as there are, as CSV.
pub fn pods(seed: u64) -> String {
    let total: u64 = NODES
        .iter()
        .map(|(n, _, _, gpus, _)| *n as u64 * u64::from(*gpus))
        .sum();
    let mut rng = SplitMix64::new(seed);
    let mut out = String::from(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
         deletion_time,scheduled_time\n",
    );
    let (mut wanted, mut number, mut clock) = (0, 0_usize, 0_u64);
    while wanted < total * 1000 {
        let mut draw = rng.below(1000) as u64;
        let mut parts = PARTS.iter();
        let (_, gpus, milli) = *parts
            .find(|(weight, ..)| {
                let hit = draw < *weight;
                draw = draw.wrapping_sub(if hit { 0 } else { *weight });
                hit
            })
            .expect("the weights sum to a thousand");
        wanted += u64::from(gpus * milli);
        let worth = (gpus * milli).max(250);
        let cores = CORES_PER_GPU[rng.below(CORES_PER_GPU.len())];
        let cpu = (worth * cores).next_multiple_of(500);
        let memory = cpu / 1000 * [2, 4, 4, 6][rng.below(4)] * 1024;
        let spec = MODELS
            .iter()
            .find(|(every, _)| gpus > 0 && number.is_multiple_of(*every));
        let spec = spec.map_or("", |(_, models)| models);
        let qos = ["LS", "BE", "BE", "Burstable"][rng.below(4)];
        clock += rng.below(60) as u64;
        let stay = 300 + rng.below(36_000) as u64;
        let _ = writeln!(
            out,
            "campus-pod-{number:05},{cpu},{memory},{gpus},{milli},{spec},{qos},Succeeded,{clock},\
             {},{clock}",
            clock + stay,
        );
        number += 1;
    }
    out
}

/// A job list for about 64 GPUs and a week, as CSV.
pub fn jobs(seed: u64) -> String {
    let mut rng = SplitMix64::new(seed);
    let mut out = String::from("job_id,submit_time,num_gpu,worker_num,duration,queue\n");
    let mut clock_s = 0;
    for number in 0..1_200 {
        clock_s += rng.below(2 * GAP_S);
        let mut draw = rng.below(100);
        let size = JOBS.iter().find(|(weight, ..)| {
            let hit = draw < *weight;
            draw = draw.wrapping_sub(if hit { 0 } else { *weight });
            hit
        });
        let (_, gpus, workers) = size.expect("the weights sum to a hundred");
        let runs_s = MINUTES[rng.below(MINUTES.len())] * 60 + rng.below(60);
        let team = TEAMS[rng.below(TEAMS.len())];
        let _ = writeln!(
            out,
            "job-{number:04},{clock_s},{gpus},{workers},{runs_s},{team}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Text, jobs, openb};

    #[test]
    fn the_sample_is_a_trace_and_its_parameters_are_sound() {
        assert_eq!(PARTS.iter().map(|(weight, ..)| weight).sum::<u64>(), 1000);
        let text = |name: &str, csv: String| Text::decode(name, csv.as_bytes()).expect("text");
        let nodes = openb::nodes(&text("nodes", nodes())).expect("nodes");
        let list = openb::pods(&text("pods", pods(1))).expect("pods");
        assert!(nodes.len() > 400 && list.len() > 2000);
        assert_eq!(pods(1), pods(1));
        assert_eq!(JOBS.iter().map(|(weight, ..)| weight).sum::<usize>(), 100);
        let list = jobs::read(&text("jobs", jobs(1)), &Default::default()).expect("jobs");
        assert_eq!(list.len(), 1_200);
        assert!(
            list.iter()
                .any(|job| job.workers == 4 && job.queue.is_some())
        );
    }
}
