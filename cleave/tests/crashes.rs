//! `kill -9` of the control plane, of the agent and of both, at places that are drawn: nothing is
//! lost, nothing runs twice, nothing that runs is touched.
#![cfg(feature = "up")]

mod pool;

use pool::{Pool, Who, is_over};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// Places at which the control plane or an agent may be told to die, and how often each is passed
/// in a run, roughly.
const PLACES: &[(&str, Who, u64)] = &[
    ("commit-before", Who::Server, 50),
    ("commit-within", Who::Server, 50),
    ("commit-after", Who::Server, 50),
    ("send-before", Who::Server, 40),
    ("send-after", Who::Server, 40),
    ("answer-before", Who::Server, 2),
    ("agent-persist-before", Who::Agent, 120),
    ("agent-persist-after", Who::Agent, 120),
    ("agent-call-before", Who::Agent, 60),
    ("agent-call-after", Who::Agent, 60),
    ("agent-start-before", Who::Agent, 15),
    ("agent-start-after", Who::Agent, 15),
    ("agent-signal-before", Who::Agent, 2),
    ("agent-signal-after", Who::Agent, 2),
    ("agent-kill-before", Who::Agent, 2),
    ("agent-kill-after", Who::Agent, 2),
    ("agent-report-before", Who::Agent, 60),
    ("agent-report-after", Who::Agent, 60),
];

const JOBS: &str = r#"
cleave: 1
workloads:
  - name: keep
    gpu: 1
    command: "echo $$ >> keep.pid; echo $CLEAVE_JOB >> ran; exec sleep 1000"
  - {name: "small[0-4]", gpu: 1g.10gb, command: "echo $CLEAVE_JOB >> ran; sleep 0.2"}
  - {name: half, gpu: 3g.40gb, command: "echo $CLEAVE_JOB >> ran; sleep 0.1"}
  - name: "share[0-1]"
    gpu: 0.25
    isolation: limited
    command: "echo $CLEAVE_JOB >> ran; sleep 0.2"
  - {name: "plain[0-1]", cpu: 1, command: "echo $CLEAVE_JOB >> ran"}
  - {name: bad, cpu: 1, command: "echo $CLEAVE_JOB >> ran; exit 3"}
  - {name: pair, gpu: 2, command: "echo $CLEAVE_JOB >> ran; sleep 0.1"}
  - name: deaf
    gpu: 1g.10gb
    command: "trap '' TERM; echo $CLEAVE_JOB >> ran; while :; do sleep 0.1; done"
"#;

fn submit(pool: &mut Pool, both: bool, file: &str, one: &str) -> Result<(), String> {
    let sent = std::cell::Cell::new(false);
    pool.until(both, "submitted", |pool| {
        // Whoever got no answer looks before they ask again.
        let Some(phases) = pool.phases() else {
            return false;
        };
        sent.set(phases.contains_key(one));
        sent.get() || pool.cleave(&format!("submit {file}")).is_some()
    })
}

/// One run in which one process dies at one place.
fn run(seed: u64) -> Result<bool, String> {
    let mut random = Random(seed);
    let (place, who, often) = PLACES[random.below(PLACES.len() as u64) as usize];
    let fate = format!("{place}:{}", 1 + random.below(often));
    let both = random.below(3) == 0;
    let mut pool = Pool::new(&format!("crash-{seed}"), JOBS);
    let mine = |other: Who| (other == who).then_some(fate.as_str());
    pool.start(Who::Agent, mine(Who::Agent));
    pool.start(Who::Server, mine(Who::Server));
    let outcome = live(&mut pool, both);
    let died = pool.deaths > 0;
    let home = pool.home.clone();
    pool.keep = outcome.is_err();
    drop(pool);
    match outcome {
        Ok(()) => {}
        Err(why) => {
            return Err(format!(
                "seed {seed} ({fate}, both: {both}): {why}\n  see {}",
                home.display()
            ));
        }
    }
    Ok(died)
}

fn live(pool: &mut Pool, both: bool) -> Result<(), String> {
    submit(pool, both, "jobs.yaml", "keep")?;
    pool.until(both, "deaf runs or is over", |pool| {
        pool.phases()
            .is_some_and(|phases| phases.get("deaf").is_some_and(|phase| phase != "waiting"))
    })?;
    pool.until(both, "deaf cancelled", |pool| {
        pool.cleave("cancel deaf").is_some() || {
            pool.phases()
                .is_some_and(|phases| phases.get("deaf").is_some_and(|phase| is_over(phase)))
        }
    })?;
    pool.until(both, "all over but one", |pool| {
        let over = |(name, phase): (&String, &String)| match name.as_str() {
            "keep" => phase == "running",
            _ => is_over(phase),
        };
        pool.phases().is_some_and(|phases| phases.iter().all(over))
    })?;
    let phases = pool.phases().unwrap_or_default();
    let ran = pool.ran();
    let expected = |name: &str| match name {
        "bad" => "failed",
        "deaf" => "cancelled",
        "keep" => "running",
        _ => "done",
    };
    if phases.len() != 14 {
        return Err(format!("{} jobs: {phases:?}", phases.len()));
    }
    for (name, phase) in &phases {
        let times = ran.get(name).copied().unwrap_or(0);
        let fine = times == 1 || (name == "deaf" && times == 0);
        if phase != expected(name) || !fine {
            return Err(format!(
                "{name} is {phase} and ran {times} times: {phases:?}"
            ));
        }
    }
    let pid = fs::read_to_string(pool.home.join("keep.pid")).unwrap_or_default();
    let alive = |pid: &str| Path::new(&format!("/proc/{}", pid.trim())).exists();
    if pid.lines().count() != 1 || !alive(&pid) {
        return Err(format!("the job that runs was touched: {pid:?}"));
    }
    pool.until(both, "keep ended", |pool| {
        pool.cleave("cancel keep").is_some()
            || pool.phases().is_some_and(|p| p["keep"] == "cancelled")
    })?;
    pool.until(both, "keep over", |pool| {
        pool.phases()
            .is_some_and(|phases| phases["keep"] == "cancelled")
    })?;
    if alive(&pid) {
        return Err("a cancelled job still runs".into());
    }
    // Every GPU is whole again, on the device too.
    let all = "cleave: 1\nworkloads:\n  - {name: all, gpu: 4, command: 'true'}\n";
    fs::write(pool.home.join("all.yaml"), all).expect("written");
    submit(pool, both, "all.yaml", "all")?;
    pool.until(both, "a job on all GPUs", |pool| {
        pool.phases().is_some_and(|phases| phases["all"] == "done")
    })?;
    let fleet = pool.cleave("gpus --json -").ok_or("no answer")?;
    let fleet: Value = serde_json::from_str(&fleet).map_err(|e| e.to_string())?;
    let gpus = fleet["nodes"][0]["gpus"].as_array().ok_or("no GPUs")?;
    match gpus.iter().find(|gpu| gpu["state"] != "free") {
        Some(gpu) => Err(format!("a GPU is not free: {gpu}")),
        None => Ok(()),
    }
}

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

#[test]
fn nothing_is_lost_when_anything_dies() {
    let number = |variable: &str, default: u64| {
        let text = std::env::var(variable).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (first, seeds) = (number("CLEAVE_SEED", 0), number("CLEAVE_CRASHES", 50));
    let lanes = number("CLEAVE_LANES", 3);
    let (next, died) = (AtomicU64::new(0), AtomicU64::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let lane = || {
            let mut failures = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::SeqCst);
                if at >= seeds {
                    return failures;
                }
                match run(first + at) {
                    Ok(reached) => drop(died.fetch_add(u64::from(reached), Ordering::SeqCst)),
                    Err(why) => failures.push(why),
                }
            }
        };
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes
            .into_iter()
            .flat_map(|lane| lane.join().expect("no panic"))
            .collect()
    });
    println!(
        "{} of {seeds} runs came to the place where a process dies",
        died.into_inner()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
