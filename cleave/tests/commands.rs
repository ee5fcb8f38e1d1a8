//! The built program from outside: what a command line prints, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

const NODES: &str = "scenarios/traces/campus-nodes.csv";
const PODS: &str = "scenarios/traces/campus-pods.csv";

/// Words of a command line, its exit code, and what its output or its complaint says.
const LINES: &[(&str, i32, &str)] = &[
    ("boards H100-80GB-SXM", 0, "1g.10gb"),
    ("boards H10-80GB", 2, "H100-80GB-SXM"),
    ("check scenarios/basics/gang.yaml", 0, "1 hold"),
    ("check no-such-file.yaml", 2, "no-such-file.yaml"),
    ("simulate scenarios/basics/gang.yaml", 0, "elastic"),
    ("simulate --format openb", 2, "--nodes"),
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
        "simulate scenarios/basics/gang.yaml --nodes NODES",
        2,
        "cannot be used with",
    ),
    ("completions bash", 0, "cleave"),
];

fn cleave(line: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let words = line.split_whitespace().map(|word| {
        let word = word.replace("NODES", NODES);
        word.replace("PODS", PODS)
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave"));
    command.current_dir(root).args(words).output().unwrap()
}

#[test]
fn every_line_ends_as_it_should() {
    for (line, code, says) in LINES {
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
