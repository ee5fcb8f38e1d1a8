//! `cleave submit`: jobs to be run when there is room.

use super::{
    Server, block_on, follow::patiently, outline, refused, request::Flags, surroundings, told,
};
use crate::json::Json;
use crate::{
    client::{Client, Failure},
    error, screen,
};
use anyhow::Context;
use cleave_server::api::{Phase, Problem, Row, Submission, Submitted};
use std::{
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(clap::Args)]
pub struct Args {
    /// A job file (`-` for standard input) in place of flags and a command
    #[arg(conflicts_with_all = ["command", "array", "name", "gpu", "isolation", "model", "cpu",
        "memory", "workers", "min", "class", "priority", "queue", "retries", "env", "dir"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// A job for each of these numbers, such as `0-99`; each sees its own in CLEAVE_ARRAY_INDEX
    #[arg(long, value_name = "RANGE")]
    array: Option<String>,
    /// Come back when they are over: 0 if all of them did their work, 1 if one failed
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let submission = match &args.file {
        Some(file) => Submission {
            file: text(file)?,
            number: false,
            surroundings: surroundings::here(None)?,
        },
        None => args.flags.submission(args.array.as_deref(), None)?,
    };
    let client = args.server.client();
    block_on(async {
        let jobs = match client.post::<Submitted>("/v1/jobs", &submission).await {
            Ok(submitted) => submitted.jobs,
            Err(Failure::Refused(_, problem)) => {
                return Ok(refused(&complaint(&problem, args.file.as_deref())));
            }
            Err(failure) => return Err(told(failure)),
        };
        if !args.json.put(&Submitted { jobs: jobs.clone() })? {
            screen::print(&summary(&jobs))?;
        }
        match args.wait {
            true => wait(&client, &jobs).await,
            false => Ok(ExitCode::SUCCESS),
        }
    })
}

/// A job file as text.
fn text(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() != "-" {
        return crate::scenario_text(file).with_context(|| format!("{}: not read", file.display()));
    }
    let mut text = String::new();
    let mut limited = std::io::stdin().lock().take(crate::MAX_SCENARIO);
    limited
        .read_to_string(&mut text)
        .context("standard input: not read")?;
    Ok(text)
}

/// What is wrong with a submission: places in a file, messages alone for flags.
pub fn complaint(problem: &Problem, file: Option<&Path>) -> String {
    if problem.places.is_empty() {
        return format!("cleave: {}", problem.error);
    }
    let line = |place: &cleave_server::api::Place| match file {
        Some(file) => {
            let (line, column) = (place.line, place.column);
            let file = match file.as_os_str() == "-" {
                true => "standard input".into(),
                false => file.display().to_string(),
            };
            format!("{file}:{line}:{column}: {}", place.message)
        }
        None => format!("cleave: {}", place.message),
    };
    let mut lines: Vec<String> = problem.places.iter().map(line).collect();
    lines.dedup();
    lines.join("\n")
}

fn summary(jobs: &[String]) -> String {
    let mut out = format!("submitted {}\n", outline::names(jobs));
    if let Some(first) = jobs.first() {
        out += &format!("  cleave why {first}\n  cleave logs -f {first}\n");
    }
    out
}

async fn wait(client: &Client, jobs: &[String]) -> anyhow::Result<ExitCode> {
    let mut failed = 0;
    for name in jobs {
        let row = over(client, name).await.map_err(told)?;
        if row.phase != Phase::Done {
            failed += 1;
            let how = super::ps::state(&row);
            screen::complain(&format!("cleave: {name} {how}: cleave why {name}"));
        }
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(error::DIFFERENT),
    })
}

/// The job when it is over.
async fn over(client: &Client, name: &str) -> Result<Row, Failure> {
    let mut row = patiently(|| client.wait(name, None)).await?;
    while !row.phase.is_over() {
        let seen = &row;
        row = patiently(|| client.wait(name, Some(seen))).await?;
    }
    Ok(row)
}
