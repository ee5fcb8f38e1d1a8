//! Whole worlds with every fault at once, as many and as long as wanted.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask faults [--seeds N] [--events N] [--from SEED]";

/// Runs the fault simulation as a release build: by default 2,000 seeds of 5,000 facts each.
pub fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let variables = parse(args)?;
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--quiet", "--release", "--package", "cleave-sim"])
        .args(["--test", "worlds", "faulty_worlds_settle"])
        // How far it is, and a failure while the rest still runs.
        .args(["--", "--nocapture"])
        .envs(variables)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}

fn parse(args: &[&str]) -> Result<[(&'static str, String); 3]> {
    let mut variables = [
        ("CLEAVE_WORLDS", 2_000),
        ("CLEAVE_EVENTS", 5_000),
        ("CLEAVE_SEED", 0_u64),
    ];
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let at = match *word {
            "--seeds" => 0,
            "--events" => 1,
            "--from" => 2,
            _ => bail!("`{word}` is not known\n{USAGE}"),
        };
        let number = words.next().and_then(|number| number.parse().ok());
        variables[at].1 = number.with_context(|| format!("`{word}` needs a number\n{USAGE}"))?;
    }
    Ok(variables.map(|(name, number)| (name, number.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_promised() {
        let numbers = |args: &[&str]| parse(args).ok().map(|all| all.map(|(_, number)| number));
        let known = |numbers: [&str; 3]| Some(numbers.map(String::from));
        assert_eq!(numbers(&[]), known(["2000", "5000", "0"]));
        let said = ["--events", "7", "--seeds", "3", "--from", "9"];
        assert_eq!(numbers(&said), known(["3", "7", "9"]));
        for wrong in [&["--seeds"][..], &["--seeds", "x"], &["3"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
