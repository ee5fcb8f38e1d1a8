//! Values of the API to draw screens from.

use cleave_server::api::{Attempt, Detail, Fleet, Gpu, Jobs, Node, Part, Phase, Row};
use std::collections::BTreeMap;

/// Now, in all samples.
const NOW: u64 = 10_000_000;

/// A job in that phase.
pub fn row(name: &str, phase: Phase) -> Row {
    let waits = phase == Phase::Waiting;
    let placed = !waits && !phase.is_over();
    Row {
        id: 1,
        name: name.into(),
        user: "anna".into(),
        queue: "default".into(),
        class: "batch".into(),
        priority: 0,
        phase,
        workers: 1,
        running: u32::from(phase == Phase::Running),
        ask: "10 GiB".into(),
        places: if placed {
            vec!["n0 gpu0 1g.10gb@4".into()]
        } else {
            Vec::new()
        },
        reason: if waits {
            "full gpu".into()
        } else {
            String::new()
        },
        submitted: NOW - 600_000,
        started: (!waits).then_some(NOW - 480_000),
        ended: phase.is_over().then_some(NOW - 60_000),
        exit: match phase {
            Phase::Done => Some(0),
            Phase::Failed => Some(3),
            _ => None,
        },
    }
}

/// A gang that runs, a notebook, an array that waits, and jobs that are over.
pub fn jobs() -> Jobs {
    let mut jobs = vec![
        Row {
            workers: 4,
            running: 3,
            ask: "8 GPUs H100-80GB-SXM".into(),
            places: (0..4)
                .map(|node| format!("n{node} gpu0,1,2,3,4,5,6,7"))
                .collect(),
            class: "training".into(),
            ..row("llama-pretraining-the-second-run", Phase::Running)
        },
        Row {
            user: "ben".into(),
            ..row("notebook-1", Phase::Running)
        },
        row("notebook-2", Phase::Starting),
    ];
    jobs.extend((17..100).map(|number| row(&format!("sweep-{number}"), Phase::Waiting)));
    jobs.push(Row {
        reason: "not now: back-off after a failed start".into(),
        ..row("big", Phase::Waiting)
    });
    jobs.extend([
        row("old-3", Phase::Done),
        row("old-2", Phase::Done),
        row("old-1", Phase::Failed),
    ]);
    let counts = [
        (Phase::Waiting, 84),
        (Phase::Starting, 1),
        (Phase::Running, 2),
    ];
    Jobs {
        jobs,
        counts: BTreeMap::from(counts),
        now: NOW,
    }
}

/// A job that waits after a failure.
pub fn waiting() -> Detail {
    let attempt = |attempt, started: Option<u64>| Attempt {
        worker: 0,
        attempt,
        node: "n0".into(),
        placed: NOW - 500_000 + u64::from(attempt) * 1_000,
        started,
        ended: started.map(|started| started + 30_000),
        outcome: started.map(|_| "failed with exit code 3".into()),
        exit: started.map(|_| 3),
        note: None,
    };
    Detail {
        row: row("sweep-17", Phase::Waiting),
        why: vec![
            "It waits: full gpu.".into(),
            "Of 4 GPUs 0 are free.".into(),
            "It can go on when others end: `llama-pretraining-the-second-run` of anna, \
             `notebook-1` of ben, and 12 more."
                .into(),
            "3 jobs are served before it.".into(),
        ],
        command: Some(
            ["python", "train.py", "--name", "it's one"]
                .map(String::from)
                .into(),
        ),
        directory: Some("/data/anna/experiments".into()),
        attempts: vec![attempt(2, Some(NOW - 400_000)), attempt(4, None)],
        now: NOW,
    }
}

/// A node with a cut GPU, a shared one, a whole one, a free one and one that is down.
pub fn fleet() -> Fleet {
    let part = |worker: &str, slice: &str, start, size, memory_mib| Part {
        worker: worker.into(),
        user: "anna".into(),
        slice: slice.into(),
        start,
        size,
        memory_mib,
        phase: Phase::Running,
    };
    let gpu = |index, state: &str, parts: Vec<Part>| Gpu {
        index,
        board: "A100-80GB".into(),
        memory_mib: 81_920,
        units: 8,
        state: state.into(),
        free_mib: 81_920 - parts.iter().map(|part| part.memory_mib).sum::<u32>(),
        parts,
    };
    let cut = vec![
        part("train.0", "3g.40gb@0", 0, 4, 40_192),
        part("sweep-1.0", "1g.10gb@4", 4, 1, 9_728),
        part("sweep-2.0", "1g.10gb@5", 5, 1, 9_728),
    ];
    let shared = vec![
        part("note-a.0", "25 % 20 GiB", 0, 8, 20_480),
        part("note-b.0", "25 % 20 GiB", 0, 8, 20_480),
    ];
    let node = Node {
        name: "n0".into(),
        simulated: true,
        connected: true,
        health: "ready".into(),
        cpu_milli: 64_000,
        cpu_free_milli: 59_500,
        memory_bytes: 512 << 30,
        memory_free_bytes: 500 << 30,
        gpus: vec![
            gpu(0, "cut", cut),
            gpu(1, "shared", shared),
            gpu(2, "whole", vec![part("train.1", "whole", 0, 8, 81_920)]),
            gpu(3, "free", Vec::new()),
            gpu(4, "down", Vec::new()),
        ],
        notes: vec!["memory of jobs is not limited: run the agent as root to enable it".into()],
    };
    let away = Node {
        name: "n1".into(),
        connected: false,
        health: "lost".into(),
        gpus: vec![Gpu {
            board: "L4".into(),
            memory_mib: 23_034,
            free_mib: 23_034,
            units: 1,
            ..gpu(0, "free", Vec::new())
        }],
        notes: Vec::new(),
        ..node.clone()
    };
    Fleet {
        nodes: vec![node, away],
        now: NOW,
    }
}
