//! A job list in time on a cluster of equal nodes: waits, completion times, use.

use super::{Args, peak_rss_mib};
use crate::{
    boards, screen,
    table::{Table, counted, spark},
};
use anyhow::{Context, bail};
use cleave_control::Request;
use cleave_engine::{
    State,
    planner::{ByPrice, FirstFit, Packing, Question, Walk},
};
use cleave_lab::{
    convert::Unsaid,
    trace::{Text, jobs},
};
use cleave_model::{GPU, Millis, Name, board::Catalogue, event::Event, node::Node, prices::Prices};
use cleave_scenario::Duration;
use cleave_sim::{Outcome, Settings, World};
use serde_json::{Value, json};
use std::{process::ExitCode, time::Instant};

struct Row {
    policy: String,
    gpus: usize,
    outcome: Outcome,
    ended: Millis,
    wall_s: f64,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.jobs else {
        bail!("--format csv needs --jobs FILE")
    };
    let Some(cluster) = &args.cluster else {
        bail!("--format csv needs --cluster NODESxGPUS, such as 8x8 or 8x8:H100-80GB-SXM");
    };
    let sink = args.json.open()?;
    let nodes = nodes(cluster)?;
    let map = match &args.columns {
        Some(text) => text.parse::<jobs::ColumnMap>()?,
        None => jobs::ColumnMap::default(),
    };
    let mut list = jobs::read(&Text::read(file)?, &map)?;
    list.sort_by_key(|job| job.submit_ms);
    let unsaid = Unsaid {
        cpu_milli: 0,
        memory_bytes: 0,
        ..Unsaid::default()
    };
    let first = list.first().map_or(0, |job| job.submit_ms);
    let work = list.iter().map(|job| {
        let mut work = unsaid.job(job)?;
        work.submitted -= first;
        Ok((work.submitted, Request::Submit(work)))
    });
    let script: Vec<(Millis, Request)> = work
        .collect::<Result<_, cleave_model::name::BadName>>()
        .context("a job's name")?;
    let mut facts: Vec<Event> = nodes.iter().cloned().map(Event::Node).collect();
    facts.extend(queues(&script));
    let mut rows = Vec::new();
    for policy in args.policies() {
        rows.push(match policy {
            "cleave" => play(policy, ByPrice::default(), &facts, &script)?,
            "first-fit" => play(policy, FirstFit::default(), &facts, &script)?,
            other => bail!("--policy {other}: over a job list there are cleave and first-fit"),
        });
    }
    let json: Vec<Value> = rows.iter().map(as_json).collect();
    let json = if json.len() == 1 {
        json[0].clone()
    } else {
        Value::Array(json)
    };
    if sink.wants_tables() {
        screen::print(&tables(&rows, &nodes[0].gpus[0]))?;
    }
    sink.put(&json)?;
    Ok(ExitCode::SUCCESS)
}

fn nodes(cluster: &str) -> anyhow::Result<Vec<Node>> {
    let wrong = || format!("--cluster {cluster}: NODESxGPUS, such as 8x8 or 8x8:H100-80GB-SXM");
    let (size, board) = cluster.split_once(':').unwrap_or((cluster, "A100-80GB"));
    let (nodes, gpus) = size.split_once('x').with_context(wrong)?;
    let nodes: usize = nodes
        .parse()
        .ok()
        .filter(|n| (1..=100_000).contains(n))
        .with_context(wrong)?;
    let gpus: usize = gpus
        .parse()
        .ok()
        .filter(|n| (1..=32).contains(n))
        .with_context(wrong)?;
    let known = Catalogue::builtin();
    let id = boards::find(&known, board).context("--cluster")?;
    if let Some(meant) = boards::meant(&known, board, id) {
        screen::complain(&format!("--cluster: {meant}"));
    }
    let board = Name::new(&known.board(id).name)?;
    let node = |number: usize| {
        Ok(Node {
            name: Name::new(format!("n{number:05}"))?,
            cpu_milli: 1 << 32,
            memory_bytes: 1 << 50,
            pods: u32::MAX,
            gpus: vec![board.clone(); gpus],
            links: Vec::new(),
            labels: Default::default(),
            taints: Vec::new(),
            pool: Name::new("trace")?,
            price_micros: None,
        })
    };
    (0..nodes).map(node).collect()
}

fn queues(script: &[(Millis, Request)]) -> Vec<Event> {
    let names = script.iter().filter_map(|(_, request)| match request {
        Request::Submit(work) => Some(work.queue.clone()),
        _ => None,
    });
    let names: std::collections::BTreeSet<Name> = names.collect();
    let queue = cleave_lab::convert::queue;
    names.into_iter().map(queue).map(Event::Queue).collect()
}

fn play<P: Packing>(
    policy: &str,
    packing: P,
    facts: &[Event],
    script: &[(Millis, Request)],
) -> anyhow::Result<Row> {
    let began = Instant::now();
    let refine: fn(&State) -> Prices = |state| Question::of(state).answer();
    let planner = Walk::new(packing);
    let mut world = World::new(planner, refine, Settings::default(), facts.to_vec());
    let run = world.run(script.iter().cloned(), Millis::MAX);
    run.map_err(|violation| anyhow::anyhow!("a rule broke, please report: {violation}"))?;
    if let Some(refusal) = world.refused().first() {
        bail!("{refusal}");
    }
    Ok(Row {
        policy: policy.into(),
        gpus: facts
            .iter()
            .map(|fact| {
                if let Event::Node(node) = fact {
                    node.gpus.len()
                } else {
                    0
                }
            })
            .sum(),
        outcome: world.outcome().clone(),
        ended: world.now(),
        wall_s: began.elapsed().as_secs_f64(),
    })
}

fn use_pct(row: &Row) -> f64 {
    let all = row.gpus as f64 * f64::from(GPU) * row.ended as f64;
    row.outcome.held_unit_ms(row.ended) as f64 * 100.0 / all.max(1.0)
}

fn tables(rows: &[Row], board: &Name) -> String {
    let width = screen::columns();
    let head = rows.first().map_or(String::new(), |row| {
        let (gpus, jobs) = (row.gpus as u64, row.outcome.submitted);
        format!(
            "{} on {} ({board})",
            counted(jobs, "job"),
            counted(gpus, "GPU")
        )
    });
    let mut table = Table::new([
        "policy",
        "wait p50",
        "wait p95",
        "all done after",
        "GPUs held %",
        "time",
    ]);
    for row in rows {
        table.row([
            row.policy.clone(),
            Duration(row.outcome.wait_percentile(50) / 1000 * 1000).to_string(),
            Duration(row.outcome.wait_percentile(95) / 1000 * 1000).to_string(),
            Duration(row.ended / 60_000 * 60_000).to_string(),
            format!("{:.1}", use_pct(row)),
            format!("{:.1} s", row.wall_s),
        ]);
    }
    let mut out = screen::fill(&head, width, 0) + "\n\n" + &table.render();
    out += "\nGPUs held over the run\n";
    let columns = width.saturating_sub(11).clamp(1, 60) as u64;
    for row in rows {
        let at = |part: u64| {
            let time = row.ended / columns * part;
            let before = row.outcome.held.partition_point(|(at, _)| *at <= time);
            before
                .checked_sub(1)
                .map_or(0.0, |ix| row.outcome.held[ix].1 as f64)
        };
        let line: Vec<f64> = (0..columns).map(at).collect();
        out += &format!("{:<10} {}\n", row.policy, spark(&line));
    }
    out
}

fn as_json(row: &Row) -> Value {
    json!({
        "policy": row.policy,
        "gpus": row.gpus,
        "jobs": row.outcome.submitted,
        "wait_p50_ms": row.outcome.wait_percentile(50),
        "wait_p95_ms": row.outcome.wait_percentile(95),
        "makespan_s": row.ended as f64 / 1000.0,
        "held_pct": use_pct(row),
        "placements": row.outcome.placements,
        "wall_s": row.wall_s,
        "peak_rss_mib": peak_rss_mib(),
    })
}
