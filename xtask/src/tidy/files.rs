//! Rules about whole Rust files.

use crate::tree::{Finding, Tree};

/// Lines a Rust file may have.
const MAX_LINES: usize = 800;

/// Files that may be longer, each with the reason.
const LONG: &[(&str, &str)] = &[];

/// Packages whose sources may say `unsafe`: they speak C to the driver's library.
pub const UNSAFE: &[&str] = &["crates/node/", "crates/nvml-sim/"];

/// What a merge or an editor leaves behind.
pub fn no_leftovers(tree: &Tree) -> Vec<Finding> {
    let left = |path: &&String| {
        let ends = [".orig", ".rej", ".bak", "~", ".snap.new"];
        ends.iter().any(|end| path.ends_with(end))
    };
    let paths = tree.paths.iter().filter(left);
    paths
        .map(|path| Finding::file(path, "a leftover; delete it"))
        .collect()
}

/// Every Rust file begins with what it is about.
pub fn module_docs(tree: &Tree) -> Vec<Finding> {
    let silent = tree.rust().filter(|file| !file.text.starts_with("//!"));
    silent
        .map(|file| Finding::line(&file.path, 1, "begin with a `//!` module doc"))
        .collect()
}

/// Files stay small, around one idea.
pub fn length(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > MAX_LINES && !LONG.iter().any(|(path, _)| *path == file.path) {
            let text = format!("{lines} lines, more than {MAX_LINES}; split it by idea");
            found.push(Finding::file(&file.path, text));
        }
    }
    found
}

/// `unsafe` is written in the crates that speak C, nowhere else.
pub fn no_unsafe(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let may = UNSAFE.iter().any(|place| file.path.starts_with(place));
        if may || file.path.starts_with("xtask/src/tidy/") {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = |(at, word): (usize, &str)| {
                code[at + word.len()..]
                    .trim_start()
                    .starts_with(|c: char| c == '{' || c.is_ascii_lowercase())
            };
            if code.match_indices("unsafe ").any(opens) || code.contains("(unsafe_code") {
                found.push(Finding::line(
                    &file.path,
                    at + 1,
                    "unsafe code; it belongs in `node`",
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_module_doc_is_found() {
        assert_eq!(
            module_docs(&Tree::of(&[("a.rs", "//! Words.\n"), ("a.md", "# A\n")])),
            []
        );
        assert_eq!(
            module_docs(&Tree::of(&[("a.rs", "use std::fmt;\n")])).len(),
            1
        );
        assert_eq!(module_docs(&Tree::of(&[("a.rs", "")])).len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(length(&Tree::of(&[("a.rs", &"\n".repeat(MAX_LINES))])), []);
        assert_eq!(
            length(&Tree::of(&[("a.rs", &"\n".repeat(MAX_LINES + 1))])).len(),
            1
        );
        assert_eq!(
            length(&Tree::of(&[("a.md", &"\n".repeat(MAX_LINES + 1))])),
            []
        );
    }

    #[test]
    fn unsafe_code_is_found_where_it_may_not_be() {
        for (path, line, findings) in [
            ("crates/model/src/lib.rs", "    unsafe { f() }", 1),
            ("crates/model/src/lib.rs", "pub unsafe fn f() {}", 1),
            ("crates/model/src/lib.rs", "#![allow(unsafe_code)]", 1),
            ("crates/model/src/lib.rs", "// never unsafe { }", 0),
            ("crates/node/src/nvml.rs", "    unsafe { f() }", 0),
            (
                "crates/nvml-sim/src/lib.rs",
                "pub unsafe extern \"C\" fn f() {}",
                0,
            ),
        ] {
            assert_eq!(
                no_unsafe(&Tree::of(&[(path, line)])).len(),
                findings,
                "{line}"
            );
        }
    }
}
