//! `cleave ps`: jobs and how far they are.

use super::{
    Server, block_on, matches, outline,
    outline::Line,
    own_name, pattern,
    text::{NARROW, count, cut, screen_size, span, tame, width},
    told,
};
use crate::json::Json;
use crate::{
    screen::{self, tint},
    table::{Table, grouped},
};
use cleave_server::api::{Jobs, Phase, Row};
use std::process::ExitCode;

/// Jobs that are fetched at most.
const MOST: u32 = 100_000;
/// Lines of a screen that are not for jobs: head, counts, note and the next prompt.
const OTHER_LINES: usize = 5;
/// Columns of the table's last column at least, and of the others: name, state, time, user, ask.
const LAST_COLUMN: usize = 24;
const LEAST: [usize; 5] = [14, 8, 3, 6, 8];

#[derive(clap::Args)]
pub struct Args {
    /// Jobs by name, `*` for any text; all jobs if left out
    names: Vec<String>,
    /// Also jobs that are over
    #[arg(long, short)]
    all: bool,
    /// Your own jobs alone
    #[arg(long)]
    mine: bool,
    /// Every job on a line of its own, however many there are
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for name in &args.names {
        pattern(name)?;
    }
    let path = format!("/v1/jobs?all={}&limit={MOST}", args.all);
    let client = args.server.client();
    let jobs = block_on(async { client.get::<Jobs>(&path).await.map_err(told) });
    let mut jobs = jobs?;
    let me = own_name();
    let named =
        |row: &Row| args.names.is_empty() || args.names.iter().any(|name| matches(name, &row.name));
    jobs.jobs
        .retain(|row| named(row) && (!args.mine || row.user == me));
    if args.json.put(&jobs)? {
        return Ok(ExitCode::SUCCESS);
    }
    let lines = match screen_size() {
        Some((_, rows)) if !args.full => rows.saturating_sub(OTHER_LINES).max(5),
        _ => usize::MAX,
    };
    screen::print(&render(&jobs, width(), lines, args.full))?;
    Ok(ExitCode::SUCCESS)
}

/// The list in at most so many lines of jobs, each no wider than `width`.
pub fn render(jobs: &Jobs, width: usize, most: usize, full: bool) -> String {
    let mut lines: Vec<Line<'_>> = if full {
        let line = |row| Line {
            name: Row::clone(row).name,
            row,
            jobs: 1,
        };
        jobs.jobs.iter().map(line).collect()
    } else {
        outline::fold(&jobs.jobs, false)
    };
    if lines.len() > most {
        lines = outline::fold(&jobs.jobs, true);
    }
    if lines.is_empty() {
        let live: u64 = jobs.counts.values().sum();
        return match live {
            0 => "no jobs; `cleave submit --gpu 10GiB -- COMMAND` makes one\n".into(),
            _ => format!("no such jobs\n{}\n", counts(jobs)),
        };
    }
    let left = lines.len().saturating_sub(most);
    let hidden: u64 = lines.iter().skip(most).map(|line| line.jobs).sum();
    lines.truncate(most);
    let mut out = if width < NARROW {
        stacked(&lines, jobs.now, width)
    } else {
        table(&lines, jobs.now, width)
    };
    out += &counts(jobs);
    out.push('\n');
    if left > 0 {
        out += &format!(
            "and {} that `cleave ps --full` shows\n",
            count(hidden, "job")
        );
    }
    out
}

fn table(lines: &[Line<'_>], now: u64, width: usize) -> String {
    let head = [
        "name",
        "state",
        "for",
        "user",
        "asks for",
        "where, or why not",
    ];
    let mut cells: Vec<[String; 6]> = Vec::new();
    for line in lines {
        let row = line.row;
        cells.push([
            tame(&line.name),
            state(row),
            since(row, now),
            tame(&row.user),
            tame(&row.ask),
            whereabouts(line),
        ]);
    }
    let longest = |at: usize| {
        let lengths = cells.iter().map(|row| row[at].chars().count());
        lengths.max().unwrap_or(0).max(head[at].len())
    };
    let mut widths = [0, 1, 2, 3, 4].map(longest);
    // The widest that can be cut is, until the last column has its room.
    while widths.iter().sum::<usize>() + 2 * widths.len() + LAST_COLUMN > width {
        let cuttable = (0..widths.len()).filter(|at| widths[*at] > LEAST[*at]);
        let Some(at) = cuttable.max_by_key(|at| widths[*at]) else {
            break;
        };
        widths[at] -= 1;
    }
    let used = widths.iter().sum::<usize>() + 2 * widths.len();
    let room = width.saturating_sub(used).max(LAST_COLUMN);
    let mut table = Table::new(head);
    for (row, line) in cells.into_iter().zip(lines) {
        let [name, state, since, user, ask, place] = row;
        let state = tint(&cut(&state, widths[1]), colour(line.row.phase));
        let (name, user) = (cut(&name, widths[0]), cut(&user, widths[3]));
        table.row([
            name,
            state,
            since,
            user,
            cut(&ask, widths[4]),
            cut(&place, room),
        ]);
    }
    table.render()
}

/// Two lines for each job, for narrow screens.
fn stacked(lines: &[Line<'_>], now: u64, width: usize) -> String {
    let mut out = String::new();
    for line in lines {
        let row = line.row;
        let (state, since) = (state(row), since(row, now));
        let room = width.saturating_sub(state.chars().count() + since.len() + 2);
        let name = cut(&tame(&line.name), room.max(8));
        let detail = format!("{}: {}", tame(&row.ask), whereabouts(line));
        let detail = detail.trim_end_matches(": ");
        out += &format!(
            "{} {} {since}\n  {}\n",
            screen::bold(&name),
            tint(&state, colour(row.phase)),
            cut(detail, width.saturating_sub(2))
        );
    }
    out
}

/// The word for how far a job is, with workers where they are several.
pub fn state(row: &Row) -> String {
    let word = phase(row.phase);
    match (row.phase, row.exit) {
        (Phase::Failed, Some(code)) => format!("{word} ({code})"),
        (Phase::Running | Phase::Starting, _) if row.workers > 1 => {
            format!("{word} {}/{}", row.running, row.workers)
        }
        _ => word.into(),
    }
}

/// The word for a phase.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Ending => "ending",
        Phase::Done => "done",
        Phase::Failed => "failed",
        Phase::Cancelled => "cancelled",
    }
}

/// The colour of a phase.
pub fn colour(phase: Phase) -> u8 {
    match phase {
        Phase::Waiting => 33,
        Phase::Starting | Phase::Ending => 36,
        Phase::Running | Phase::Done => 32,
        Phase::Failed => 31,
        Phase::Cancelled => 35,
    }
}

/// How long it has been in its state, or ago that it was over.
fn since(row: &Row, now: u64) -> String {
    let from = match row.phase {
        Phase::Waiting => Some(row.submitted),
        phase if phase.is_over() => row.ended,
        _ => row.started.or(Some(row.submitted)),
    };
    from.map_or_else(String::new, |from| span(now.saturating_sub(from)))
}

fn whereabouts(line: &Line<'_>) -> String {
    let row = line.row;
    let text = match (row.places.as_slice(), row.reason.as_str()) {
        _ if line.jobs > 1 && row.reason.is_empty() => String::new(),
        ([], reason) => reason.to_owned(),
        ([one], _) => one.clone(),
        ([first, rest @ ..], _) => format!("{first} and {} more", rest.len()),
    };
    match line.jobs {
        1 => tame(&text),
        many if text.is_empty() => format!("{many} jobs"),
        many => format!("{many} jobs: {}", tame(&text)),
    }
}

fn counts(jobs: &Jobs) -> String {
    let part = |(of, number): (&Phase, &u64)| format!("{} {}", grouped(*number), phase(*of));
    let parts: Vec<String> = jobs
        .counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(part)
        .collect();
    if parts.is_empty() {
        return "nothing waits or runs".into();
    }
    parts.join(", ")
}
