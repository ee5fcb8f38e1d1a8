//! Project tasks, run as `cargo xtask TASK`: what would otherwise be a shell script.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool talks to its terminal"
)]

mod ci;
mod faults;
mod generate;
mod markdown;
mod measure;
mod tidy;
mod tree;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask TASK

tasks
  ci [STAGE…]    run the named stages of CI, or all of them
  tidy           check the source tree: dependency directions, text, docs
  generate       rewrite the files that are made from code
  faults         whole worlds in which everything goes wrong
  crashes        real processes, killed at drawn places
  measure        measurements that the documents quote
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let args: Vec<String> = env::args().skip(1).collect();
    let root = workspace_root(&env::current_dir()?)?;
    let passed = match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["ci", stages @ ..] => ci::run(&root, stages)?,
        ["tidy"] => tidy::run(&root)?,
        ["generate"] => generate::write_all(&root)?,
        ["faults", what @ ..] => faults::FAULTS.run(&root, what)?,
        ["crashes", what @ ..] => faults::CRASHES.run(&root, what)?,
        ["measure", what @ ..] => measure::run(&root, what)?,
        [] | ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            true
        }
        other => bail!("no task `{}`\n{USAGE}", other.join(" ")),
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The workspace that `dir` lies in. Found at run time: a path compiled in would point at
/// another checkout when two share a target directory.
fn workspace_root(dir: &Path) -> Result<PathBuf> {
    dir.ancestors()
        .find(|dir| dir.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("`{}` is not inside the workspace", dir.display()))
}
