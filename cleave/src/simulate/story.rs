//! A scenario played to its end.

use super::{Args, peak_rss_mib, put_json};
use crate::{
    error, screen,
    table::{Table, grouped, spark},
};
use anyhow::{Context, bail};
use cleave_lab::play::{self, Played};
use cleave_model::GPU;
use cleave_scenario::{Duration, Scenario};
use serde_json::json;
use std::{collections::BTreeMap, path::Path, process::ExitCode, time::Instant};

/// More nodes than this are not drawn one by one.
const DRAWN_NODES: usize = 24;

pub fn run(args: &Args, file: &Path) -> anyhow::Result<ExitCode> {
    if args.policy != ["cleave"] {
        bail!("scenarios are decided by cleave; --policy compares on recorded traces");
    }
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
    if !put_json(args, &json)? {
        screen::print(&text_of(&scenario, &played))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Workloads that wait at the end, with what is said of them.
fn pending(played: &Played) -> BTreeMap<String, String> {
    let waiting = played.end.standings.iter().filter_map(|(name, standing)| {
        Some((name.to_string(), standing.verdict.as_ref()?.to_string()))
    });
    waiting.collect()
}

fn text_of(scenario: &Scenario, played: &Played) -> String {
    let gpus: usize = scenario.nodes.iter().map(|node| node.gpus.len()).sum();
    let outcome = &played.outcome;
    let mut out = format!(
        "{} nodes, {} GPUs, {} workloads; ends after {}\n\n",
        grouped(scenario.nodes.len() as u64),
        grouped(gpus as u64),
        grouped(outcome.submitted),
        Duration(played.ended),
    );
    if played.fleet.len() <= DRAWN_NODES {
        for (node, lines) in &played.fleet {
            out += &format!("{}\n", screen::bold(node.as_str()));
            for (at, line) in lines.iter().enumerate() {
                out += &format!("  {at} {line}\n");
            }
        }
        out.push('\n');
    }
    let mut table = Table::new(["placed", "evicted", "failed starts", "wait p50", "wait p95"]);
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
        let step = held.len().div_ceil(60);
        let thin: Vec<f64> = held.into_iter().step_by(step).collect();
        out += &format!("\nGPUs held, change by change\n{}\n", spark(&thin));
    }
    let waiting = pending(played);
    if !waiting.is_empty() {
        out += "\nwaiting at the end\n";
        let mut table = Table::new(["workload", "why"]);
        waiting
            .into_iter()
            .for_each(|(name, why)| table.row([name, why]));
        out += &table.render();
    }
    if !played.differences.is_empty() {
        out += "\nnot as the file expects (`cleave check` makes this an error)\n";
        for difference in &played.differences {
            out += &format!("{difference}\n");
        }
    }
    out
}
