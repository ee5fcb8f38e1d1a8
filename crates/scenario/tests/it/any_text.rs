//! Texts that are no scenario: never a panic, always a place and a message.

use crate::{files::files, schema::follows};
use cleave_scenario::{parse, schema};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::LazyLock;

static FILES: LazyLock<Vec<String>> =
    LazyLock::new(|| files().into_iter().map(|(_, text)| text).collect());
static SCHEMA: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&schema()).expect("JSON"));

/// Reads a text; what reads follows the schema, and what does not says where and why.
fn try_reading(text: &str) {
    // A job file is read by the same code up to what it means.
    let _ = cleave_scenario::parse_jobs(text, &[], 1_000);
    match parse(text) {
        Ok(_) => {
            let value: Value = serde_saphyr::from_str(text).expect("YAML, for it was read");
            assert!(
                follows(&SCHEMA, &SCHEMA, &value),
                "it reads against the schema:\n{text}"
            );
        }
        Err(problems) => {
            assert!(!problems.0.is_empty());
            for problem in problems.0 {
                assert!(problem.place.line >= 1 && problem.place.column >= 1);
                let message = &problem.message;
                assert!(
                    !message.is_empty() && !message.contains('\n'),
                    "{message:?}"
                );
                assert!(message.len() < 2_000, "{message}");
            }
        }
    }
}

/// Words that matter somewhere in the language.
const WORDS: [&str; 40] = [
    "1",
    "0",
    "-1",
    "0.5",
    "1/7",
    "1e9",
    "18446744073709551616",
    ".nan",
    "~",
    "true",
    "[]",
    "{}",
    "[1, a]",
    "{a: 1}",
    "n0",
    "n0/0",
    "n0/0@4",
    "n[0-3]",
    "n[0-",
    "a*",
    "*",
    "&x",
    "*x",
    "<<",
    "whole",
    "1g.5gb",
    "9999g.1gb",
    "12GiB",
    "99999999999GiB",
    "1s",
    "end",
    "none",
    "any",
    "host",
    "full gpu",
    "H100",
    "'",
    "\"",
    "!!str",
    "\u{0}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_at_all(text in "(?s).{0,200}") {
        try_reading(&text);
        try_reading(&format!("cleave: 1\nworkloads: {text}"));
    }

    #[test]
    fn a_file_cut_off(file: prop::sample::Index, at: prop::sample::Index) {
        let text = file.get(&FILES);
        let at = at.index(text.len());
        if text.is_char_boundary(at) {
            try_reading(&text[..at]);
        }
    }

    #[test]
    fn a_file_with_words_changed(
        file: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..WORDS.len()), 1..4),
    ) {
        let text = file.get(&FILES);
        let separators = [' ', ',', '{', '}', '[', ']', '\n'];
        let mut words: Vec<_> = text.split_inclusive(separators).map(String::from).collect();
        for (at, word) in changes {
            let at = at.index(words.len());
            let end = words[at].chars().last().filter(|c| separators.contains(c));
            words[at] = format!("{}{}", WORDS[word], end.map(String::from).unwrap_or_default());
        }
        try_reading(&words.concat());
    }

    #[test]
    fn a_file_with_lines_moved(
        file: prop::sample::Index,
        from: prop::sample::Index,
        to: prop::sample::Index,
    ) {
        let mut lines: Vec<_> = file.get(&FILES).lines().collect();
        let line = lines.remove(from.index(lines.len()));
        lines.insert(to.index(lines.len() + 1), line);
        try_reading(&lines.join("\n"));
    }

    #[test]
    fn a_share_written_as_a_number_is_exact(n in 1u32..10_000) {
        let text = format!("cleave: 1\nworkloads: [{{name: a, gpu: {}}}]", f64::from(n) / 1e4);
        let scenario = parse(&text).expect("it reads");
        let gpus = scenario.workloads[0].groups[0].ask.gpus.clone().expect("it asks for some");
        let want = cleave_model::ask::Part::Share { compute: Some(n * 84), memory_mib: None };
        prop_assert_eq!(gpus.part, want);
    }
}

#[test]
fn bombs_are_refused() {
    let deep = |open: &str, close: &str| {
        format!(
            "cleave: 1\nnodes: {}{}",
            open.repeat(5_000),
            close.repeat(5_000)
        )
    };
    let mut aliases = String::from("cleave: 1\nboards:\n  - &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 9].join(", ");
        aliases += &format!("  - &a{i} [{refs}]\n");
    }
    let many = "{name: 'n[0-999999]'}, ".repeat(50);
    let spots = "'n[0-1999999]', ".repeat(50);
    for text in [
        deep("[", "]"),
        deep("{a: ", "}"),
        deep("- ", ""),
        aliases,
        "cleave: 1\nnodes: &a [*a]".into(),
        format!("cleave: 1\nnodes: [{many}]"),
        format!("cleave: 1\nworkloads: [{{name: a, on: [{spots}]}}]"),
        "cleave: 1\nnodes: [{name: 'n[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]'}]".into(),
        "cleave: 1\nnodes: [{name: n, labels: {a: 'x[0-18446744073709551615]'}}]".into(),
        "cleave: 1\nnodes: [{name: n}]\nworkloads: [{name: a, workers: 4000000000, on: n}]".into(),
        format!("cleave: {}", "9".repeat(100_000)),
        format!(
            "cleave: 1\nworkloads: [{{name: {}}}]",
            "x".repeat(1_000_000)
        ),
        format!(
            "cleave: 1\nworkloads: [{{name: a, gpu: {}}}]",
            "9".repeat(100_000)
        ),
    ] {
        let problems = parse(&text).expect_err(&text[..text.len().min(80)]);
        assert!(
            problems.0.iter().all(|p| p.message.len() < 2_000),
            "{problems}"
        );
    }
}
