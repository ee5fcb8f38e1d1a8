//! What CI runs: stages in order, each with the time that it should take.
//!
//! After a failure the slow stages are left out, the others still run, so that one run shows
//! all that is cheap to know. Being over time is a warning: no result depends on the clock.

mod pages;
mod stages;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// One stage.
struct Stage {
    name: &'static str,
    /// Time that the stage should take on two cores from a fresh checkout, in seconds.
    budget_s: u64,
    /// Left out once a stage has failed.
    slow: bool,
    run: fn(&Path) -> Result<()>,
}

/// The order is that of a first run: each stage builds on what the ones before it built.
const STAGES: &[Stage] = &[
    cheap("fmt", 10, stages::fmt),
    cheap("tidy", 10, stages::tidy),
    cheap("deny", 20, stages::deny),
    cheap("test", 900, stages::test),
    cheap("clippy", 300, stages::clippy),
    cheap("doc", 180, stages::doc),
    slow("docs", 600, pages::run),
    slow("e2e", 900, stages::e2e),
];

const fn cheap(name: &'static str, budget_s: u64, run: fn(&Path) -> Result<()>) -> Stage {
    Stage {
        name,
        budget_s,
        slow: false,
        run,
    }
}

const fn slow(name: &'static str, budget_s: u64, run: fn(&Path) -> Result<()>) -> Stage {
    Stage {
        name,
        budget_s,
        slow: true,
        run,
    }
}

/// Runs the stages in `names`, or all of them; true if none failed.
pub fn run(root: &Path, names: &[&str]) -> Result<bool> {
    let known = |name: &&&str| STAGES.iter().any(|stage| stage.name == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
        bail!("no stage `{name}`; there are {}", all.join(", "));
    }
    let chosen = STAGES
        .iter()
        .filter(|stage| names.is_empty() || names.contains(&stage.name));
    Ok(run_stages(root, chosen))
}

fn run_stages<'a>(root: &Path, stages: impl Iterator<Item = &'a Stage>) -> bool {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut report = String::new();
    for stage in stages {
        let line = if failed > 0 && stage.slow {
            skipped += 1;
            format!("{:<7} left out: a stage before it failed", stage.name)
        } else {
            println!("\n=== {} (budget {} s)", stage.name, stage.budget_s);
            let start = Instant::now();
            let result = (stage.run)(root);
            let took = start.elapsed();
            let outcome = match result {
                Ok(()) => {
                    passed += 1;
                    "ok".to_owned()
                }
                Err(error) => {
                    failed += 1;
                    format!("FAILED: {error:#}")
                }
            };
            let over = took > Duration::from_secs(stage.budget_s);
            if over {
                println!("warning: stage `{}` is over its budget", stage.name);
            }
            let (took_s, budget_s) = (took.as_secs_f64(), stage.budget_s);
            let mark = if over { ", OVER" } else { "" };
            format!(
                "{:<7} {took_s:>6.1} s of {budget_s:>3} s{mark}, {outcome}",
                stage.name
            )
        };
        println!("{line}");
        report.push_str(&line);
        report.push('\n');
    }
    println!("\n{report}\nci: {passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of CI on two cores, with room for the tools that it installs first.
    const TOTAL_S: u64 = 50 * 60;

    #[test]
    fn the_budgets_add_up_to_less_than_the_whole() {
        assert!(STAGES.iter().map(|stage| stage.budget_s).sum::<u64>() <= TOTAL_S);
    }

    #[test]
    fn a_failure_leaves_out_slow_stages_alone() {
        let ok = |_: &Path| Ok(());
        let root = Path::new(".");
        assert!(run_stages(
            root,
            [cheap("a", 60, ok), slow("b", 60, ok)].iter()
        ));
        let after_failure = [
            cheap("a", 60, |_| bail!("broken")),
            slow("b", 60, |_| panic!("ran a slow stage")),
            cheap("c", 60, ok),
        ];
        assert!(!run_stages(root, after_failure.iter()));
        assert!(run(root, &["no-such-stage"]).is_err());
    }
}
