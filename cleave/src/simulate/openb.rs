//! The packing benchmark over an openb trace: arrivals only, what fits nowhere is dropped.

use super::{Args, peak_rss_mib, put_json};
use crate::{
    screen::{self, Progress},
    table::{Table, grouped, spark_between},
};
use anyhow::{Context, bail};
use cleave_lab::{
    convert::Unsaid,
    protocol::{self, Run},
    study::{
        Cleave,
        openb::{List, Times, Who},
    },
    trace::{Text, openb, sequence},
};
use cleave_model::{event::Event, policy::Mix, workload::Workload};
use serde_json::{Value, json};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// Where the tables read the curves, in percent of the GPUs arrived.
const POINTS: [usize; 6] = [80, 90, 95, 100, 110, 130];

struct Row {
    policy: String,
    mix: String,
    run: Run,
    times: Times,
    wall: Duration,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (Some(nodes), Some(pods)) = (&args.nodes, &args.pods) else {
        bail!("--format openb needs --nodes FILE and --pods FILE");
    };
    if !(args.until > 0.0 && args.until <= 10.0) {
        bail!(
            "--until {}: a part of the GPUs between 0 and 10, such as 1.3",
            args.until
        );
    }
    let list = List::of(openb::Trace::read(nodes, pods)?)?;
    let arrivals = match &args.order {
        Some(order) => {
            let order = openb::order(&Text::read(order)?)?;
            sequence::given(&list.trace.pods, &order)?
        }
        None => {
            let target = (list.trace.total_gpu_milli() as f64 * args.until) as u64;
            sequence::shuffled(&list.trace.pods, args.seed, target)?
        }
    };
    let prior = prior(args, &list)?;
    let mut results = Vec::new();
    for who in policies(&args.policy, prior.is_some())? {
        let began = Instant::now();
        let mut times = Times::default();
        let mut progress = Progress::new(who.name(), arrivals.len() as u64);
        let run = match (who, who.baseline(args.seed)) {
            (_, Some(rule)) => {
                let fleet = list.fleet.shuffled(args.seed);
                let order = arrivals.iter().enumerate().map(|(at, arrival)| {
                    progress.at(at as u64);
                    arrival.pod
                });
                protocol::run(&fleet, order, rule)
            }
            (who, None) => {
                let mix = if prior.is_some() {
                    Mix::Prior
                } else {
                    Mix::Learned
                };
                let mut facts = list.facts(mix)?;
                if let Some(prior) = &prior {
                    facts.retain(|fact| !matches!(fact, Event::Prior(_)));
                    facts.push(Event::Prior(prior.clone()));
                }
                let work: Vec<(Workload, u64)> = list.work(&arrivals)?;
                let mut done = 0;
                debug_assert!(matches!(who, Who::Cleave(_)));
                protocol::run_planner(facts, work, Cleave::default(), |decided| {
                    times.add(decided);
                    done += 1;
                    progress.at(done);
                })
            }
        };
        results.push(Row {
            policy: short(who).into(),
            mix: match who {
                Who::Cleave(_) => args.mix.clone(),
                Who::Fgd => "known".into(),
                _ => "none".into(),
            },
            run,
            times,
            wall: began.elapsed(),
        });
    }
    let json: Vec<Value> = results.iter().map(as_json).collect();
    let json = if json.len() == 1 {
        json[0].clone()
    } else {
        Value::Array(json)
    };
    if !put_json(args, &json)? {
        screen::print(&tables(&list, arrivals.len(), &results))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The name of a policy on the command line.
fn short(who: Who) -> &'static str {
    if matches!(who, Who::Cleave(_)) {
        "cleave"
    } else {
        who.name()
    }
}

fn policies(names: &[String], known: bool) -> anyhow::Result<Vec<Who>> {
    let cleave = Who::Cleave(if known { Mix::Prior } else { Mix::Learned });
    let all = [cleave, Who::Fgd, Who::BestFit, Who::Random, Who::Static];
    let mut chosen = Vec::new();
    for name in names {
        match all.iter().find(|who| short(**who) == name) {
            Some(who) => chosen.push(*who),
            None if name == "all" => chosen.extend(all),
            None => bail!("--policy {name}: cleave, fgd, bestfit, random, static or all"),
        }
    }
    Ok(chosen)
}

/// The mix that is given beforehand, if any.
fn prior(args: &Args, list: &List) -> anyhow::Result<Option<Vec<(cleave_model::ask::Ask, u64)>>> {
    let mix = |pods: &[openb::Pod]| Unsaid::default().mix(pods).context("a name of the list");
    match args.mix.as_str() {
        "learned" => Ok(None),
        "known" => Ok(Some(mix(&list.trace.pods)?)),
        other => match other.strip_prefix("prior:") {
            Some(file) => Ok(Some(mix(&openb::pods(&Text::read(file)?)?)?)),
            None => bail!("--mix {other}: learned, known or prior:FILE"),
        },
    }
}

fn point(curve: &[Option<f64>], percent: usize) -> Option<f64> {
    curve.get(percent).copied().flatten()
}

fn tables(list: &List, arrivals: usize, results: &[Row]) -> String {
    let gpus = list.trace.total_gpu_milli() / 1000;
    let mut out = format!(
        "{} nodes, {} GPUs, {} arrivals\nnothing leaves, what fits nowhere is dropped\n\n",
        grouped(list.trace.nodes.len() as u64),
        grouped(gpus),
        grouped(arrivals as u64),
    );
    let reached = |result: &Row| {
        (0..=130)
            .rev()
            .find(|p| point(&result.run.allocated, *p).is_some())
    };
    let last = results.iter().filter_map(reached).max().unwrap_or(0);
    let mut points: Vec<usize> = POINTS.into_iter().filter(|point| *point <= last).collect();
    if points.last() != Some(&last) {
        points.push(last);
    }
    let percents = points.iter().map(|percent| format!("{percent} %"));
    let head = ["policy".to_string(), "mix".into()]
        .into_iter()
        .chain(percents);
    let mut table = Table::new(head.chain(["dropped".into(), "time".into()]));
    for result in results {
        let cells = points.iter().map(|percent| {
            point(&result.run.allocated, *percent)
                .map_or("–".into(), |value| format!("{value:.2}"))
        });
        let row = [result.policy.clone(), result.mix.clone()]
            .into_iter()
            .chain(cells);
        let wall = format!("{:.1} s", result.wall.as_secs_f64());
        table.row(row.chain([grouped(result.run.dropped as u64), wall]));
    }
    out += "GPUs allocated (%) when so much of all GPUs had arrived\n";
    out += &table.render();
    out += &savings(gpus, results);
    if last <= 80 {
        return out;
    }
    out +=
        &format!("\nGPUs left over as arrivals go from 80 to {last} %, full height 25 % of all\n");
    for result in results {
        let left: Vec<f64> = (80..=130)
            .filter_map(|percent| point(&result.run.allocated, percent))
            .map(|value| 100.0 - value)
            .collect();
        out += &format!("{:<8} {}\n", result.policy, spark_between(&left, 0.0, 25.0));
    }
    out
}

/// What the first policy gains over the others, in GPUs.
fn savings(gpus: u64, results: &[Row]) -> String {
    let at = |result: &Row| point(&result.run.allocated, 100);
    let Some((first, others)) = results.split_first() else {
        return String::new();
    };
    let mut out = String::new();
    for other in others {
        if let (Some(ours), Some(theirs)) = (at(first), at(other)) {
            let more = (ours - theirs) / 100.0 * gpus as f64;
            let word = if more >= 0.0 { "more" } else { "fewer" };
            out += &format!(
                "at 100 % {} has {:.0} {word} GPUs in use than {}\n",
                first.policy,
                more.abs(),
                other.policy
            );
        }
    }
    if out.is_empty() {
        out
    } else {
        format!("\n{out}")
    }
}

fn as_json(result: &Row) -> Value {
    let curve = |curve: &[Option<f64>]| -> Value {
        let points = curve.iter().enumerate();
        let points = points.filter_map(|(at, value)| Some((at.to_string(), json!((*value)?))));
        Value::Object(points.collect())
    };
    let percentile = |times: &[Duration], percent: usize| {
        let mut times = times.to_vec();
        times.sort_unstable();
        let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(at).map(|time| time.as_micros() as u64)
    };
    let times = &result.times;
    json!({
        "policy": result.policy,
        "mix": result.mix,
        "allocation_pct": curve(&result.run.allocated),
        "frag_pct": curve(&result.run.fragmented),
        "failed_pods": result.run.dropped,
        "placements": result.run.placed,
        "wall_s": result.wall.as_secs_f64(),
        "decision_p50_us": percentile(&times.decisions, 50),
        "decision_p99_us": percentile(&times.decisions, 99),
        "repriced_decision_p99_us": percentile(&times.repriced, 99),
        "refinement_p99_us": percentile(&times.refinements, 99),
        "peak_rss_mib": peak_rss_mib(),
    })
}
