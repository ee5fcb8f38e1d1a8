//! Rules about single lines, as a table.

use crate::tree::{Finding, Tree};

/// A line that must not be.
struct Rule {
    /// What is wrong, and the way out.
    text: &'static str,
    /// Whether the rule holds for the file at this path.
    covers: fn(&str) -> bool,
    /// Whether this line breaks it.
    breaks: fn(&str) -> bool,
}

/// Rust sources' width, as rustfmt has it; it leaves long strings and comments alone.
const WIDTH: usize = 100;

const RULES: &[Rule] = &[
    Rule {
        text: "longer than 100 characters; break it",
        covers: is_rust,
        breaks: |line| line.chars().count() > WIDTH,
    },
    Rule {
        text: "a tab; indent by spaces",
        covers: is_rust,
        breaks: |line| line.contains('\t'),
    },
    Rule {
        text: "white space at the end of the line",
        // Snapshots and tables hold what a program printed, empty last columns included.
        covers: |path| !ends_with_any(path, &[".snap", ".tsv", ".csv"]),
        breaks: |line| line.ends_with(|c: char| c.is_whitespace()),
    },
    Rule {
        text: "unfinished; finish it or return an error",
        covers: rust_but_here,
        breaks: |line| {
            ["todo!", "unimplemented!", "dbg!"]
                .iter()
                .any(|call| has_word(line, call))
        },
    },
    Rule {
        text: "a test that never runs; repair it, delete it or make it an end-to-end step",
        covers: rust_but_here,
        breaks: |line| line.contains("#[ignore") || line.contains("```ignore"),
    },
    Rule {
        text: "a note to self; do it, or write what is missing into the documents",
        covers: all_but_here,
        breaks: |line| {
            ["TODO", "FIXME", "XXX"]
                .iter()
                .any(|word| has_word(line, word))
        },
    },
    Rule {
        text: "a path of one machine; take it from the environment or a flag",
        covers: all_but_here,
        breaks: |line| {
            ["/work/", "/root/", "/home/"]
                .iter()
                .any(|path| has_path(line, path))
        },
    },
    Rule {
        text: "a path outside the repository; call it the data directory, CLEAVE_DATA",
        covers: all_but_here,
        breaks: |line| {
            let prose = !line.contains('"') || line.trim_start().starts_with("//");
            prose && line.contains("../shared")
        },
    },
    Rule {
        text: "a registry's host; name the package alone",
        // The lock file is Cargo's.
        covers: |path| path != "Cargo.lock",
        breaks: |line| {
            let follows = |rest: &str, domain| {
                rest.strip_prefix('.')
                    .is_some_and(|rest| rest.starts_with(domain))
            };
            HOSTS
                .iter()
                .any(|(name, domain)| line.split(name).skip(1).any(|r| follows(r, domain)))
        },
    },
];

/// Names and domains apart, so that this file has no host in it either.
const HOSTS: &[(&str, &str)] = &[
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("proxy.golang", "org"),
    ("maven", "org"),
    ("maven.apache", "org"),
    ("deb.debian", "org"),
];

/// Every line keeps every rule that covers its file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let rules: Vec<_> = RULES
            .iter()
            .filter(|rule| (rule.covers)(&file.path))
            .collect();
        for (at, line) in file.text.split('\n').enumerate() {
            let broken = rules.iter().filter(|rule| (rule.breaks)(line));
            found.extend(broken.map(|rule| Finding::line(&file.path, at + 1, rule.text)));
        }
    }
    found
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// This folder names what it forbids.
fn all_but_here(path: &str) -> bool {
    !path.starts_with("xtask/src/tidy/")
}

fn rust_but_here(path: &str) -> bool {
    is_rust(path) && all_but_here(path)
}

fn ends_with_any(path: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| path.ends_with(end))
}

/// Whether `word` stands in `line` with no letter, digit or `_` next to it.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(joins) && !line[at + word.len()..].starts_with(joins))
}

/// Whether `line` has an absolute path that begins with `path`.
fn has_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-~}*".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (path, line, start of the rule that it breaks; empty if none)
    const ROWS: &[(&str, &str, &str)] = &[
        ("a.rs", "let x = 1;", ""),
        ("a.rs", "\tlet x = 1;", "a tab"),
        ("Makefile", "\tcargo build", ""),
        ("a.md", "two blanks  ", "white space"),
        ("a.yaml", "carriage return\r", "white space"),
        ("a.snap", "two blanks  ", ""),
        ("a.rs", "    todo!()", "unfinished"),
        ("a.rs", "    dbg!(x);", "unfinished"),
        ("a.rs", "    mytodo!()", ""),
        ("a.rs", "#[ignore]", "a test that never runs"),
        ("a.rs", "/// ```ignore", "a test that never runs"),
        ("a.rs", "// TODO: later", "a note"),
        ("a.md", "FIXME", "a note"),
        ("a.sh", "mktemp -d cleave-XXXXXX", ""),
        ("a.sh", "cd /work/main", "a path of one machine"),
        ("a.md", "`/home/me/gpu`", "a path of one machine"),
        ("a.md", "docs/work/page and $HOME/work/x", ""),
        ("a.rs", r#"unwrap_or("../shared/data")"#, ""),
        ("a.rs", r#"// reads "../shared/data""#, "a path outside"),
        ("a.md", "see ../shared/data", "a path outside"),
        ("a.md", "two crates: io and org", ""),
        ("a.md", concat!("from crates", ".io"), "a registry"),
        ("Cargo.lock", concat!("crates", ".io-index"), ""),
        ("xtask/src/tidy/a.rs", "// TODO", ""),
        ("xtask/src/tidy/a.rs", "\tlet x = 1;", "a tab"),
    ];

    #[test]
    fn each_rule_finds_its_line_and_no_other() {
        for &(path, line, rule) in ROWS {
            let found = check(&Tree::of(&[(path, line)]));
            let place = format!("{path}:1: ");
            match found.as_slice() {
                [] => assert_eq!(rule, "", "{path}: {line}"),
                [one] => {
                    let one = one.to_string();
                    assert!(!rule.is_empty(), "{one}");
                    assert!(one.starts_with(&(place + rule)), "{one}");
                }
                more => panic!("{line}: {more:?}"),
            }
        }
    }

    #[test]
    fn width_counts_characters() {
        let breaks = |line: String| !check(&Tree::of(&[("a.rs", &line)])).is_empty();
        assert!(!breaks("é".repeat(WIDTH)));
        assert!(breaks("é".repeat(WIDTH + 1)));
    }
}
