//! Checks of the source tree: the rules that no compiler and no linter knows.
//!
//! A check is a function from the tree to what it found, and one row of [`CHECKS`]. They run
//! as `cargo xtask tidy` and as an ordinary test.

mod crates;
mod docs;
mod files;
mod lines;

use std::path::Path;

use anyhow::Result;

use crate::generate;
use crate::tree::{Finding, Tree};

/// A name and the function behind it.
type Check = (&'static str, fn(&Tree) -> Vec<Finding>);

const CHECKS: &[Check] = &[
    ("lines", lines::check),
    ("leftovers", files::no_leftovers),
    ("module docs", files::module_docs),
    ("file length", files::length),
    ("unsafe", files::no_unsafe),
    ("dependency directions", crates::directions),
    ("workspace lints", crates::workspace_lints),
    ("pure crates' clippy.toml", crates::same_clippy_toml),
    ("changelog", docs::changelog),
    ("pages", docs::pages),
    ("links", docs::links),
    ("generated files", generate::up_to_date),
];

/// Runs every check and prints what it finds; true if that is nothing.
pub fn run(root: &Path) -> Result<bool> {
    let found = findings(root)?;
    for line in &found {
        println!("{line}");
    }
    println!("tidy: {} checks, {} findings", CHECKS.len(), found.len());
    Ok(found.is_empty())
}

fn findings(root: &Path) -> Result<Vec<String>> {
    let tree = Tree::load(root)?;
    let named = |(name, check): &Check| {
        check(&tree)
            .into_iter()
            .map(|finding| format!("{finding} [{name}]"))
            .collect::<Vec<_>>()
    };
    Ok(CHECKS.iter().flat_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_tree_is_tidy() {
        let root = crate::workspace_root(&std::env::current_dir().unwrap()).unwrap();
        let found = findings(&root).unwrap();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }
}
