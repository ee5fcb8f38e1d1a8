//! `cleave why`: what keeps a job from running, or how it ended.

use super::{
    Server, block_on, job_name, ps,
    text::{count, span, tame, width, wrap},
    told,
};
use crate::json::Json;
use crate::{
    screen::{self, bold, tint},
    table::Table,
};
use cleave_server::api::{Attempt, Detail, Phase};
use std::process::ExitCode;

/// Attempts that are shown at most, the latest of them.
const MOST_ATTEMPTS: usize = 12;
/// Columns of the keys on the left.
const KEYS: usize = 7;

#[derive(clap::Args)]
pub struct Args {
    /// The job
    name: String,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = job_name(&args.name)?;
    let client = args.server.client();
    let detail = block_on(async { client.job(&name).await.map_err(told) })?;
    if !args.json.put(&detail)? {
        screen::print(&render(&detail, width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A job in full, in lines no wider than `width`.
pub fn render(detail: &Detail, width: usize) -> String {
    let row = &detail.row;
    let head = format!(
        "{}  {}{}",
        bold(&tame(&row.name)),
        tint(&ps::state(row), ps::colour(row.phase)),
        lasting(detail)
    );
    let mut out = head + "\n";
    let mut fact = |key: &str, value: &str| {
        let value = wrap(&tame(value), width.saturating_sub(KEYS), 0);
        let value = value.replace('\n', &format!("\n{:KEYS$}", ""));
        out += &format!("{key:<KEYS$}{value}\n");
    };
    let workers = match row.workers {
        1 => row.ask.clone(),
        many => format!("{many} workers, each {}", row.ask),
    };
    fact("asks", &workers);
    fact(
        "whose",
        &format!(
            "{}, queue {}, {}, priority {}",
            row.user, row.queue, row.class, row.priority
        ),
    );
    if let Some(command) = &detail.command {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        fact("runs", &words.join(" "));
    }
    if let Some(directory) = &detail.directory {
        fact("in", directory);
    }
    for place in &row.places {
        fact("on", place);
    }
    if !detail.why.is_empty() {
        out.push('\n');
        for sentence in &detail.why {
            out += &wrap(&tame(sentence), width, 2);
            out.push('\n');
        }
    }
    if !detail.attempts.is_empty() {
        out.push('\n');
        out += &attempts(detail, width);
    }
    match next(detail) {
        next if next.is_empty() => out,
        next => out + "\n" + &next,
    }
}

fn lasting(detail: &Detail) -> String {
    let row = &detail.row;
    let ago = |from: u64| span(detail.now.saturating_sub(from));
    match (row.phase, row.started, row.ended) {
        (Phase::Waiting, ..) => format!(" for {}", ago(row.submitted)),
        (phase, Some(started), Some(ended)) if phase.is_over() => {
            let ran = span(ended.saturating_sub(started));
            format!(", ran for {ran}, ended {} ago", ago(ended))
        }
        (phase, _, Some(ended)) if phase.is_over() => format!(", {} ago", ago(ended)),
        (_, Some(started), _) => format!(" for {}", ago(started)),
        _ => String::new(),
    }
}

fn attempts(detail: &Detail, width: usize) -> String {
    let all = &detail.attempts;
    let mut latest: Vec<&Attempt> = all.iter().collect();
    latest.sort_by_key(|attempt| (attempt.placed, attempt.worker));
    let hidden = latest.len().saturating_sub(MOST_ATTEMPTS);
    let latest = latest.split_off(hidden);
    let mut table = Table::new(["worker", "attempt", "node", "ran", "outcome"]);
    for attempt in &latest {
        let ran = attempt.started.map_or_else(
            || "–".into(),
            |from| span(attempt.ended.unwrap_or(detail.now).saturating_sub(from)),
        );
        let outcome = match (&attempt.outcome, attempt.started) {
            (Some(outcome), _) => tame(outcome),
            (None, Some(_)) => "runs".into(),
            (None, None) => "starts".into(),
        };
        let outcome = super::text::cut(&outcome, width.saturating_sub(36).max(12));
        table.row([
            attempt.worker.to_string(),
            attempt.attempt.to_string(),
            tame(&attempt.node),
            ran,
            outcome,
        ]);
    }
    let mut out = table.render();
    for attempt in &latest {
        if let Some(note) = &attempt.note {
            let text = format!("attempt {}: {}", attempt.attempt, tame(note));
            out += &wrap(&text, width, 2);
            out.push('\n');
        }
    }
    if hidden > 0 {
        out += &format!(
            "{} before these; --json has all\n",
            count(hidden as u64, "attempt")
        );
    }
    out
}

/// What one may want to type now; nothing about the job of somebody else.
fn next(detail: &Detail) -> String {
    if detail.command.is_none() {
        return String::new();
    }
    let row = &detail.row;
    let name = tame(&row.name);
    let began = detail
        .attempts
        .iter()
        .any(|attempt| attempt.started.is_some());
    let lines = match row.phase {
        Phase::Waiting if began => vec![
            format!("cleave logs {name}"),
            format!("cleave cancel {name}"),
        ],
        Phase::Waiting => vec!["cleave gpus".into(), format!("cleave cancel {name}")],
        phase if phase.is_over() && !began => Vec::new(),
        phase if phase.is_over() => vec![format!("cleave logs {name}")],
        _ => vec![
            format!("cleave logs -f {name}"),
            format!("cleave cancel {name}"),
        ],
    };
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}\n")).collect();
    lines.concat()
}

/// A word of a command as one would type it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._-/:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
