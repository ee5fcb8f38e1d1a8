//! A scenario played to its end.

use super::{Args, peak_rss_mib};
use crate::{
    error, screen,
    table::{Table, counted, grouped, spark},
};
use anyhow::Context;
use cleave_lab::play::{self, Played};
use cleave_model::GPU;
use cleave_scenario::{Duration, Scenario};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::ExitCode,
    time::Instant,
};

/// More nodes than this are not drawn one by one.
const DRAWN_NODES: usize = 24;

pub fn run(args: &Args, file: &Path) -> anyhow::Result<ExitCode> {
    let sink = args.json.open()?;
    let name = file.display().to_string();
    let text = crate::scenario_text(file).with_context(|| format!("{name}: not read"))?;
    let scenario = match cleave_scenario::parse(&text) {
        Ok(scenario) => scenario,
        Err(problems) => {
            screen::complain(&problems.in_file(&name));
            return Ok(ExitCode::from(error::BAD));
        }
    };
    for warning in &scenario.warnings {
        screen::complain(&format!("{name}:{warning}"));
    }
    let began = Instant::now();
    let played = play::play(&scenario).with_context(|| name.clone())?;
    let wall = began.elapsed().as_secs_f64();
    let waits = |percent| played.outcome.wait_percentile(percent);
    let json = json!({
        "scenario": name,
        "ended_ms": played.ended,
        "submitted": played.outcome.submitted,
        "placements": played.outcome.placements,
        "evictions": played.outcome.evictions,
        "failed_starts": played.outcome.failed,
        "wait_p50_ms": waits(50),
        "wait_p95_ms": waits(95),
        "pending": pending(&played),
        "fleet": played.fleet.iter().cloned().collect::<BTreeMap<_, _>>(),
        "differences": played.differences.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "wall_s": wall,
        "peak_rss_mib": peak_rss_mib(),
    });
    if sink.wants_tables() {
        screen::print(&text_of(&scenario, &played))?;
        if !played.differences.is_empty() {
            screen::print("\nnot as the file expects\n")?;
        }
        for difference in &played.differences {
            screen::print(&format!("{name}:{difference}\n"))?;
        }
    }
    sink.put(&json)?;
    Ok(match played.differences[..] {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(error::DIFFERENT),
    })
}

/// Neighbours that are equal in what `by` shows, together.
fn alike<T, K: PartialEq>(all: &[T], by: impl Fn(&T) -> &K) -> impl Iterator<Item = &[T]> {
    all.chunk_by(move |a, b| by(a) == by(b))
}

/// Workloads that wait at the end, with what is said of them.
fn pending(played: &Played) -> BTreeMap<String, String> {
    let waiting = played.end.standings.iter().filter_map(|(name, standing)| {
        Some((name.to_string(), standing.verdict.as_ref()?.to_string()))
    });
    waiting.collect()
}

fn text_of(scenario: &Scenario, played: &Played) -> String {
    let width = screen::columns().min(80);
    let gpus: usize = scenario.nodes.iter().map(|node| node.gpus.len()).sum();
    let outcome = &played.outcome;
    let waiting = pending(played);
    let held = played.end.leases.iter().map(|lease| &lease.worker.workload);
    let held: BTreeSet<_> = held
        .filter(|name| !waiting.contains_key(name.as_str()))
        .collect();
    let head = format!(
        "{}, {}, {}; after {} {} running, {} waiting, {} done",
        counted(scenario.nodes.len() as u64, "node"),
        counted(gpus as u64, "GPU"),
        counted(scenario.workloads.len() as u64, "workload"),
        Duration(played.ended),
        held.len(),
        waiting.len(),
        outcome.finished.len(),
    );
    let mut out = screen::fill(&head, width, 0) + "\n\n";
    let nodes: Vec<_> = alike(&played.fleet, |(_, gpus)| gpus).collect();
    if nodes.len() <= DRAWN_NODES {
        for nodes in nodes {
            let (first, gpus) = &nodes[0];
            let more = match nodes.last() {
                Some((last, _)) if nodes.len() > 1 => format!(" to {last}, {} alike", nodes.len()),
                _ => String::new(),
            };
            out += &format!("{}{more}\n", screen::bold(first.as_str()));
            let mut at = 0;
            for gpus in alike(gpus, |gpu| gpu) {
                let last = at + gpus.len() - 1;
                let which = match gpus.len() {
                    1 => format!("{at}"),
                    _ => format!("{at}-{last}"),
                };
                // What lies on a GPU is parted by commas and broken nowhere else.
                let line = format!("  {which} {}", gpus[0]).replace(' ', "\u{a0}");
                let line = screen::fill(&line.replace(",\u{a0}", ", "), width, 4);
                out += &format!("{}\n", line.replace('\u{a0}', " "));
                at = last + 1;
            }
        }
        out.push('\n');
    }
    let heads = [
        "placements",
        "evictions",
        "failed starts",
        "wait p50",
        "wait p95",
    ];
    let mut table = Table::new(heads);
    table.row([
        grouped(outcome.placements),
        grouped(outcome.evictions),
        grouped(outcome.failed),
        Duration(outcome.wait_percentile(50)).to_string(),
        Duration(outcome.wait_percentile(95)).to_string(),
    ]);
    out += &table.render();
    if gpus > 0 && outcome.held.len() > 2 {
        let all = (gpus as u64 * u64::from(GPU)) as f64;
        let held: Vec<f64> = outcome
            .held
            .iter()
            .map(|(_, units)| *units as f64 / all)
            .collect();
        let step = held.len().div_ceil(width.min(60));
        let thin: Vec<f64> = held.into_iter().step_by(step).collect();
        out += &format!("\nGPUs held, change by change\n{}\n", spark(&thin));
    }
    if !waiting.is_empty() {
        out += "\nwaiting at the end\n";
        let mut table = Table::new(["workload", "why"]);
        waiting
            .into_iter()
            .for_each(|(name, why)| table.row([name, why]));
        out += &table.render();
    }
    out
}
