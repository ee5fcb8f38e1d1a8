//! The built program from outside: what a command line prints, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

const NODES: &str = "scenarios/traces/campus-nodes.csv";
const JOBS: &str = "scenarios/traces/campus-jobs.csv";
const PODS: &str = "scenarios/traces/campus-pods.csv";

/// Words of a command line, its exit code, and what its output or its complaint says.
const LINES: &[(&str, i32, &str)] = &[
    ("boards H100-80GB-SXM", 0, "1g.10gb"),
    ("boards H10-80GB", 2, "did you mean H100-80GB?"),
    ("boards H10", 2, "did you mean H100?"),
    ("boards H100", 0, "H100 means H100-80GB-SXM; there are also"),
    ("boards L4 --json -", 0, "\"memory_mib\": 2"),
    (
        "boards --json no-such-folder/x",
        2,
        "--json no-such-folder/x",
    ),
    ("check scenarios/basics/gang.yaml --json -", 0, "\"holds\""),
    ("check scenarios/basics/gang.yaml", 0, "1 hold"),
    ("check no-such-file.yaml", 2, "no-such-file.yaml"),
    ("simulate scenarios/basics/gang.yaml", 0, "elastic"),
    (
        "simulate cleave/tests/unmet.yaml",
        1,
        "unmet.yaml:6:14: at the end: expected",
    ),
    (
        "check cleave/tests/unmet.yaml",
        1,
        "unmet.yaml:6:14: at the end: expected",
    ),
    (
        "simulate scenarios/basics/gang.yaml --json no-such-folder/x",
        2,
        "--json no-such-folder/x",
    ),
    ("simulate --format openb", 2, "--nodes"),
    (
        "simulate --format openb --nodes cleave/tests/odd-nodes.csv --pods PODS --until 0.2",
        0,
        "no board is called MI5: cleave leaves out 8 GPUs on 1 nodes",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --until 0",
        2,
        "--until 0",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --until nan",
        2,
        "--until NaN",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --policy none",
        2,
        "bestfit",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --mix prior",
        2,
        "prior:FILE",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --mix prior:none.csv",
        2,
        "none.csv",
    ),
    (
        "simulate --format openb --nodes PODS --pods NODES",
        2,
        "campus-pods.csv: no column sn",
    ),
    ("simulate --format csv --jobs PODS", 2, "--cluster"),
    (
        "simulate --format csv --jobs JOBS --cluster 8x8 --policy cleave,first-fit",
        0,
        "1,200 jobs on 64 GPUs (A100-80GB)",
    ),
    (
        "simulate --format csv --jobs JOBS --cluster 8x8:H100 --json -",
        0,
        "--cluster: H100 means H100-80GB-SXM",
    ),
    (
        "simulate --format csv --jobs JOBS --cluster 8x8:H300",
        2,
        "no board is called H300 (did you mean H100?)",
    ),
    (
        "simulate scenarios/basics/gang.yaml --nodes NODES",
        2,
        "--nodes goes with --format openb: a scenario file says itself",
    ),
    (
        "simulate scenarios/basics/gang.yaml --mix known",
        2,
        "--mix goes",
    ),
    (
        "simulate scenarios/basics/gang.yaml --seed 1",
        2,
        "--seed goes",
    ),
    (
        "simulate scenarios/basics/gang.yaml --until 1",
        2,
        "--until goes",
    ),
    (
        "simulate scenarios/basics/gang.yaml --policy all",
        2,
        "--policy goes",
    ),
    (
        "simulate --format csv --order PODS",
        2,
        "--order goes with --format openb: not with csv",
    ),
    (
        "simulate --format openb --jobs PODS",
        2,
        "--jobs goes with --format csv: not with openb",
    ),
    (
        "simulate --format openb --nodes NODES --pods PODS --order PODS --until 1",
        2,
        "cannot be used with",
    ),
    ("completions bash", 0, "cleave"),
];

/// The same for `cleave up` and the commands that speak to it, where there is none.
const UP_LINES: &[(&str, i32, &str)] = &[
    ("up --dir target/none", 2, "--sim 4xA100-80GB"),
    ("up --dir target/none --sim 4", 2, "4xA100-80GB"),
    ("up --dir target/none --sim 4xA10O", 2, "A10O"),
    ("up --dir target/none --sim 99xL4", 2, "at most"),
    ("up --sim 4xL4 --agent a.sock", 2, "cannot be used with"),
    ("up --sim 4xL4 --dir /tmp", 2, "others may write to it"),
    (
        "up --dir target/none --sim 4xL4 --config scenarios/basics/gang.yaml",
        2,
        "`nodes` belongs to a scenario",
    ),
    (
        "up --dir target/none --sim 4xL4 --config none.yaml",
        2,
        "none.yaml",
    ),
    ("up --sim 4xL4 --socket LONG", 2, "107"),
    ("ps --socket none.sock", 2, "cleave up --sim 4xA100-80GB"),
    ("gpus --socket none.sock", 2, "none.sock"),
    ("ps --socket none.sock a?b", 2, "is not a name"),
    ("why --socket none.sock ../x", 2, "is not a name"),
    ("why", 2, "<NAME>"),
    (
        "logs --socket none.sock train.3",
        2,
        "no `cleave up` answers",
    ),
    ("cancel", 2, "NAMES"),
    ("cancel --all x", 2, "cannot be used with"),
    ("submit --socket none.sock --gpu 1", 2, "after `--`"),
    (
        "submit --socket none.sock -- true",
        2,
        "no `cleave up` answers",
    ),
    ("submit none.yaml", 2, "none.yaml: not read"),
    ("submit none.yaml --gpu 1", 2, "cannot be used with"),
    ("submit --isolation hard -- true", 2, "--gpu"),
    ("run --env A -- true", 2, "NAME=VALUE"),
    ("run --socket none.sock", 2, "after `--`"),
];

fn command(line: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let words = line.split_whitespace().map(|word| {
        let word = word
            .replace("LONG", &"x".repeat(200))
            .replace("NODES", NODES);
        word.replace("PODS", PODS).replace("JOBS", JOBS)
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave"));
    command.current_dir(root).args(words);
    command
}

fn cleave(line: &str) -> Output {
    command(line).output().unwrap()
}

/// On a narrow screen tables become lists and long lines are folded.
#[test]
fn nothing_is_wider_than_the_screen() {
    let lines = [
        "boards",
        "boards A30",
        "simulate scenarios/basics/shares.yaml",
        "simulate scenarios/basics/too-large.yaml",
        "simulate --format openb --nodes NODES --pods PODS --policy static,random",
        "simulate --format csv --jobs JOBS --cluster 8x8",
    ];
    for (line, screen) in lines.iter().flat_map(|line| [(line, 40), (line, 80)]) {
        let out = command(line).env("COLUMNS", screen.to_string()).output();
        let out = out.unwrap();
        assert_eq!(out.status.code(), Some(0), "{line}");
        let text = String::from_utf8(out.stdout).unwrap();
        for shown in text.lines() {
            assert!(shown.chars().count() <= screen, "{line}, {screen}: {shown}");
        }
    }
}

#[test]
fn every_line_ends_as_it_should() {
    let up: &[_] = if cfg!(feature = "up") {
        UP_LINES
    } else {
        &[("up", 2, "leaves `cleave up`")]
    };
    for (line, code, says) in LINES.iter().chain(up) {
        let Output {
            status,
            stdout,
            stderr,
        } = cleave(line);
        let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert_eq!(status.code(), Some(*code), "{line}: {text}");
        assert!(text.contains(says), "{line}: no `{says}` in: {text}");
        assert!(!text.contains("panicked"), "{line}: {text}");
    }
}

/// A list given as the prior of itself is the mix known; another prior decides otherwise.
#[test]
fn a_prior_can_come_from_a_file() {
    let results = ["known", "prior:PODS", "learned"].map(|mix| {
        let line = format!(
            "simulate --format openb --nodes NODES --pods PODS --until 0.2 --json - --mix {mix}"
        );
        let out = cleave(&line);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert!(json["placements"].as_u64().unwrap() > 100);
        json["frag_pct"].clone()
    });
    assert_eq!(results[0], results[1]);
    assert_ne!(results[0], results[2]);
}
