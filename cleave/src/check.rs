//! `cleave check`: scenario files against what they expect.

use crate::{error, json::Json, screen};
use anyhow::Context;
use cleave_lab::play;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(clap::Args)]
pub struct Args {
    /// Scenario files, or folders that are searched for `*.yaml`
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    json: Json,
}

/// How one file fared.
enum Verdict {
    Holds(usize),
    Different(Vec<String>),
    Bad(String),
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sink = args.json.open()?;
    let files = find(&args.files)?;
    if files.is_empty() {
        anyhow::bail!("no scenario files (*.yaml) found there");
    }
    let (mut different, mut bad) = (0, 0);
    let mut all = Vec::new();
    for file in &files {
        let verdict = check(file);
        different += usize::from(matches!(verdict, Verdict::Different(_)));
        bad += usize::from(matches!(verdict, Verdict::Bad(_)));
        if sink.wants_tables() {
            screen::print(&as_text(file, &verdict))?;
        }
        all.push(as_json(file, &verdict));
    }
    if sink.wants_tables() {
        let good = files.len() - different - bad;
        screen::print(&format!("{good} hold, {different} differ, {bad} bad\n"))?;
    }
    sink.put(&Value::Array(all))?;
    Ok(match (bad, different) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(error::DIFFERENT),
        _ => ExitCode::from(error::BAD),
    })
}

/// The files themselves, and the YAML files of folders and their folders, by name.
fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path);
            let entries = entries.with_context(|| format!("{}: not read", path.display()))?;
            let mut inside: Vec<PathBuf> = entries
                .map(|entry| entry.map(|e| e.path()))
                .collect::<Result<_, _>>()?;
            inside.sort();
            let yaml = |p: &PathBuf| p.is_dir() || p.extension().is_some_and(|e| e == "yaml");
            inside.retain(yaml);
            files.extend(find(&inside)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn check(file: &Path) -> Verdict {
    let name = file.display().to_string();
    let text = match crate::scenario_text(file) {
        Ok(text) => text,
        Err(error) => return Verdict::Bad(format!("{name}: {error}")),
    };
    let scenario = match cleave_scenario::parse(&text) {
        Ok(scenario) => scenario,
        Err(problems) => return Verdict::Bad(problems.in_file(&name)),
    };
    let checks = scenario
        .expects
        .iter()
        .map(|expect| expect.checks.len())
        .sum();
    match play::play(&scenario) {
        Err(error) => Verdict::Bad(format!("{name}: {error}")),
        Ok(played) if played.differences.is_empty() => Verdict::Holds(checks),
        Ok(played) => {
            let lines = played.differences.iter();
            Verdict::Different(
                lines
                    .map(|difference| format!("{name}:{difference}"))
                    .collect(),
            )
        }
    }
}

fn as_text(file: &Path, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds(checks) => {
            format!(
                "{} {} ({checks})\n",
                screen::tint("ok  ", 32),
                file.display()
            )
        }
        Verdict::Different(lines) => {
            let head = format!("{} {}\n", screen::tint("DIFF", 31), file.display());
            head + &lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        }
        Verdict::Bad(problem) => {
            format!(
                "{} {}\n{problem}\n",
                screen::tint("BAD ", 31),
                file.display()
            )
        }
    }
}

fn as_json(file: &Path, verdict: &Verdict) -> Value {
    let (result, details): (&str, Vec<&String>) = match verdict {
        Verdict::Holds(_) => ("holds", Vec::new()),
        Verdict::Different(lines) => ("different", lines.iter().collect()),
        Verdict::Bad(problem) => ("bad", vec![problem]),
    };
    json!({"file": file.display().to_string(), "result": result, "details": details})
}
