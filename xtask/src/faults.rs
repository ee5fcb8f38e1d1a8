//! Tests that draw what goes wrong, with as many seeds as wanted.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A test that reads from variables how much it is to do.
pub struct Campaign {
    task: &'static str,
    package: &'static str,
    test: &'static str,
    name: &'static str,
    /// Option, variable, and what it is where nothing is said.
    numbers: &'static [(&'static str, &'static str, u64)],
}

/// Whole worlds with every fault at once: by default 2,000 seeds of 5,000 facts each.
pub const FAULTS: Campaign = Campaign {
    task: "faults",
    package: "cleave-sim",
    test: "worlds",
    name: "faulty_worlds_settle",
    numbers: &[
        ("--seeds", "CLEAVE_WORLDS", 2_000),
        ("--events", "CLEAVE_EVENTS", 5_000),
        ("--from", "CLEAVE_SEED", 0),
    ],
};

/// Real processes that are killed at drawn places: by default 500 of them.
pub const CRASHES: Campaign = Campaign {
    task: "crashes",
    package: "cleave",
    test: "crashes",
    name: "nothing_is_lost_when_anything_dies",
    numbers: &[
        ("--points", "CLEAVE_CRASHES", 500),
        ("--from", "CLEAVE_SEED", 1_000),
        ("--lanes", "CLEAVE_LANES", 4),
    ],
};

impl Campaign {
    /// Runs the test as a release build.
    pub fn run(&self, root: &Path, args: &[&str]) -> Result<bool> {
        let variables = self.parse(args)?;
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["test", "--quiet", "--release", "--package", self.package])
            .args(["--test", self.test, self.name])
            // How far it is, and a failure while the rest still runs.
            .args(["--", "--nocapture"])
            .envs(variables)
            .current_dir(root)
            .status()
            .context("cannot start cargo")?;
        Ok(status.success())
    }

    fn parse(&self, args: &[&str]) -> Result<Vec<(&'static str, String)>> {
        let options = self
            .numbers
            .iter()
            .map(|(option, ..)| format!("[{option} N]"));
        let options: Vec<String> = options.collect();
        let usage = format!("usage: cargo xtask {} {}", self.task, options.join(" "));
        let mut said: Vec<u64> = self.numbers.iter().map(|(.., number)| *number).collect();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let at = self.numbers.iter().position(|(option, ..)| option == word);
            let Some(at) = at else {
                bail!("`{word}` is not known\n{usage}");
            };
            let number = words.next().and_then(|number| number.parse().ok());
            said[at] = number.with_context(|| format!("`{word}` needs a number\n{usage}"))?;
        }
        let names = self.numbers.iter().map(|(_, variable, _)| *variable);
        Ok(names.zip(said.iter().map(u64::to_string)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_promised() {
        let numbers = |args: &[&str]| {
            let parsed = FAULTS.parse(args).ok()?;
            Some(parsed.into_iter().map(|(_, number)| number).collect())
        };
        let known = |numbers: [&str; 3]| Some(numbers.map(String::from).to_vec());
        assert_eq!(numbers(&[]), known(["2000", "5000", "0"]));
        let said = ["--events", "7", "--seeds", "3", "--from", "9"];
        assert_eq!(numbers(&said), known(["3", "7", "9"]));
        for wrong in [&["--seeds"][..], &["--seeds", "x"], &["3"]] {
            assert!(FAULTS.parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
