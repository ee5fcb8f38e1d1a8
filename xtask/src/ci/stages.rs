//! The stages of CI that are one command or a few.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{markdown, tidy};

/// Slow runs of the built program: the path each of them needs, and the command.
const E2E: &[(&str, &str)] = &[
    (
        "scenarios",
        "cargo run --release --locked --package cleave -- check scenarios",
    ),
    // The journals that a debug build reads in the tests.
    (
        "crates/server/tests/journals",
        "cd crates/server/tests/journals
grep -v '^#' digests.txt | while read -r digest journal; do
  cargo run --release --locked --package cleave -- replay $journal --expect $digest
done",
    ),
];

pub fn fmt(root: &Path) -> Result<()> {
    shell(root, "cargo fmt --all --check")
}

pub fn tidy(root: &Path) -> Result<()> {
    if tidy::run(root)? {
        Ok(())
    } else {
        bail!("the source tree is untidy")
    }
}

pub fn deny(root: &Path) -> Result<()> {
    let version = Command::new("cargo").args(["deny", "--version"]).output()?;
    if !version.status.success() {
        bail!("no cargo-deny; `cargo install --locked cargo-deny`, or let .ci/run fetch it");
    }
    shell(root, "cargo deny --locked check bans licenses sources")
}

/// Runs what the readme says runs the tests.
pub fn test(root: &Path) -> Result<()> {
    let readme = fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let command =
        markdown::test_command(&readme).map_err(|text| anyhow::anyhow!("README.md: {text}"))?;
    shell(root, command.trim())
}

pub fn clippy(root: &Path) -> Result<()> {
    shell(
        root,
        "cargo clippy --workspace --all-targets --locked -- -D warnings",
    )
}

pub fn doc(root: &Path) -> Result<()> {
    shell(
        root,
        "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked",
    )
}

pub fn e2e(root: &Path) -> Result<()> {
    for (needs, command) in E2E {
        if root.join(needs).exists() {
            shell(root, command)?;
        } else {
            println!("left out: `{command}`, as there is no `{needs}`");
        }
    }
    Ok(())
}

/// Runs a script as bash would for a careful person: the first failure ends it.
pub fn shell(dir: &Path, script: &str) -> Result<()> {
    println!("$ {}", script.replace('\n', "\n  "));
    let status = Command::new("bash")
        .args(["-eu", "-o", "pipefail", "-c", script])
        .current_dir(dir)
        .stdin(Stdio::null())
        .status()
        .context("cannot start bash")?;
    if status.success() {
        Ok(())
    } else {
        bail!("the command ended with {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_a_script() {
        let here = Path::new(".");
        assert!(shell(here, "true\ntest 1 = 1").is_ok());
        for script in ["false\ntrue", "false | true", "echo $not_set"] {
            assert!(shell(here, script).is_err(), "{script}");
        }
    }
}
