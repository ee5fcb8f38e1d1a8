//! From a submission to workloads with what they run; the place where hostile input ends.

use crate::{
    api::{Place, Problem, Submission, Surroundings},
    caller::Caller,
    core::Wanted,
    journal::Incoming,
};
use cleave_model::Name;
use cleave_scenario::parse_jobs;
use cleave_wire::job::{Job, Run};
use std::{collections::BTreeMap, sync::Arc};

/// Jobs in one submission at most.
pub const MOST_JOBS: u64 = 10_000;
/// Bytes of a command with its arguments, and of an environment, at most; the kernel's own limits
/// are of this size.
const MOST_TEXT: usize = 512 << 10;
/// Bytes of a job's name at most: it becomes part of other names.
const LONGEST_NAME: usize = 100;
/// Bytes of a path at most.
const LONGEST_PATH: usize = 4_096;
/// Workers of one job at most: all of them run on this machine.
const MOST_WORKERS: u32 = 4_096;
/// Priorities that anybody may use.
const PRIORITIES: std::ops::RangeInclusive<i32> = -100..=100;

/// The jobs of a submission, each with what it runs and for whom.
///
/// # Errors
/// All that is wrong with it.
pub fn read(
    submission: &Submission,
    caller: &Caller,
    queues: &[Name],
) -> Result<Vec<Wanted>, Problem> {
    let jobs = parse_jobs(&submission.file, queues, MOST_JOBS).map_err(|problems| {
        let place = |problem: cleave_scenario::Problem| Place {
            line: problem.place.line,
            column: problem.place.column,
            message: problem.message,
        };
        let places: Vec<Place> = problems.0.into_iter().map(place).collect();
        let error = match places.first() {
            Some(first) => format!("{}:{}: {}", first.line, first.column, first.message),
            None => "the job file is bad".into(),
        };
        Problem { error, places }
    })?;
    surroundings(&submission.surroundings)?;
    let mut wanted = Vec::<Wanted>::new();
    for job in jobs {
        let name = job.workload.name.clone();
        check_name(&name)?;
        let workers = job.workload.workers();
        if workers > MOST_WORKERS {
            return Err(said(format!(
                "`{name}` wants {workers} workers, {MOST_WORKERS} is the most here"
            )));
        }
        if !PRIORITIES.contains(&job.workload.priority) && !caller.admin {
            return Err(said(format!(
                "`{name}`: priorities go from {} to {}",
                PRIORITIES.start(),
                PRIORITIES.end()
            )));
        }
        let outer = &submission.surroundings;
        let mut env = outer.env.clone();
        env.extend(job.env);
        check_text(&name, &job.command, &env)?;
        let directory = match job.directory {
            Some(inner) if inner.starts_with('/') => inner,
            Some(inner) => format!("{}/{inner}", outer.directory.trim_end_matches('/')),
            None => outer.directory.clone(),
        };
        check_path(&directory)?;
        let array = job.array;
        let run = Run {
            argv: job.command,
            env,
            directory,
            umask: outer.umask & 0o777,
            limits: outer.limits.clone(),
            terminal: outer.terminal,
        };
        // The jobs of an array run the same.
        let last = wanted.last().map(|last| &last.incoming.job.run);
        let run = match last.filter(|last| ***last == run) {
            Some(last) => Arc::clone(last),
            None => Arc::new(run),
        };
        wanted.push(Wanted {
            workload: job.workload,
            incoming: Incoming {
                user: caller.name.clone(),
                job: Job {
                    uid: caller.uid,
                    gid: caller.gid,
                    run,
                    workers,
                    array,
                },
            },
        });
    }
    Ok(wanted)
}

fn said(error: String) -> Problem {
    Problem {
        error,
        places: Vec::new(),
    }
}

/// Job names are parts of paths, of URLs and of other names.
fn check_name(name: &Name) -> Result<(), Problem> {
    let text = name.as_str();
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if text.len() > LONGEST_NAME || !text.bytes().all(legal) {
        let shown: String = text.chars().take(60).collect();
        return Err(said(format!(
            "`{shown}` is no name for a job: use up to {LONGEST_NAME} letters, digits or any of \
             . _ -"
        )));
    }
    Ok(())
}

fn check_text(
    name: &Name,
    command: &[String],
    env: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    let size: usize = command.iter().map(|word| word.len() + 1).sum();
    if size > MOST_TEXT {
        return Err(said(format!(
            "the command of `{name}` has {size} bytes, {MOST_TEXT} is the most: pass a file"
        )));
    }
    let size: usize = env
        .iter()
        .map(|(key, value)| key.len() + value.len() + 2)
        .sum();
    if size > MOST_TEXT {
        return Err(said(format!(
            "the environment of `{name}` has {size} bytes, {MOST_TEXT} is the most: pass less"
        )));
    }
    let zero = |text: &String| text.contains('\0');
    if command.iter().any(zero) || env.iter().any(|(key, value)| zero(key) || zero(value)) {
        return Err(said(format!(
            "the command or environment of `{name}` has a zero byte: no process can be given one"
        )));
    }
    match env.keys().find(|key| key.is_empty() || key.contains('=')) {
        Some(key) => Err(said(format!(
            "`{}` is no variable's name",
            key.escape_debug()
        ))),
        None => Ok(()),
    }
}

fn check_path(path: &str) -> Result<(), Problem> {
    if !path.starts_with('/') || path.len() > LONGEST_PATH || path.contains('\0') {
        let shown: String = path.chars().take(60).collect();
        return Err(said(format!(
            "`{}` is no working directory: give an absolute path of up to {LONGEST_PATH} bytes",
            shown.escape_debug()
        )));
    }
    Ok(())
}

fn surroundings(of: &Surroundings) -> Result<(), Problem> {
    check_path(&of.directory)?;
    if let Some(size) = of.terminal
        && (size.rows == 0 || size.columns == 0)
    {
        return Err(said(
            "a terminal has at least one row and one column".into(),
        ));
    }
    Ok(())
}
