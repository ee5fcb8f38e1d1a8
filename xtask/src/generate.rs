//! Files that are made from code and kept in the tree, where people and editors find them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tree::{Finding, Tree};

/// A file of the tree and the code that makes its whole content.
pub type Generated = (&'static str, fn() -> String);

/// Every generated file, one a row.
const GENERATED: &[Generated] = &[
    ("schema/scenario-v1.json", cleave_scenario::schema),
    (
        "scenarios/traces/campus-nodes.csv",
        cleave_lab::sample::nodes,
    ),
    ("scenarios/traces/campus-pods.csv", campus_pods),
    ("scenarios/traces/campus-jobs.csv", campus_jobs),
];

fn campus_pods() -> String {
    cleave_lab::sample::pods(1)
}

fn campus_jobs() -> String {
    cleave_lab::sample::jobs(1)
}

/// Rewrites the generated files whose content changed.
pub fn write_all(root: &Path) -> Result<bool> {
    for (path, make) in GENERATED {
        let (file, text) = (root.join(path), make());
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&file, text).with_context(|| format!("cannot write `{path}`"))?;
        println!("wrote {path}");
    }
    Ok(true)
}

/// Generated files are what the code makes now.
pub fn up_to_date(tree: &Tree) -> Vec<Finding> {
    compare(tree, GENERATED)
}

fn compare(tree: &Tree, generated: &[Generated]) -> Vec<Finding> {
    generated
        .iter()
        .filter(|(path, make)| tree.text(path) != Some(make().as_str()))
        .map(|(path, _)| Finding::file(path, "out of date; run `cargo xtask generate`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_missing_file_is_found() {
        let made: &[Generated] = &[("schema.json", || "{}\n".into())];
        assert_eq!(compare(&Tree::of(&[("schema.json", "{}\n")]), made), []);
        assert_eq!(
            compare(&Tree::of(&[("schema.json", "[]\n")]), made).len(),
            1
        );
        assert_eq!(compare(&Tree::of(&[]), made).len(), 1);
    }
}
