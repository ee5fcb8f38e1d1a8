//! The packing benchmark over an openb trace: arrivals only, what fits nowhere is dropped.

use super::{Args, peak_rss_mib};
use crate::{
    screen::{self, Progress},
    table::{Table, grouped, spark_between},
};
use anyhow::{Context, bail};
use cleave_lab::{
    convert::Unsaid,
    protocol::{self, Run},
    study::{
        Cleave, models,
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

/// Where the tables read the curves, in percent of the GPUs asked for; the last few that are
/// reached are shown.
const POINTS: [usize; 9] = [20, 40, 60, 80, 90, 95, 100, 110, 130];
const SHOWN: usize = 6;

const SEED: u64 = 42;
const UNTIL: f64 = 1.3;

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
    let (seed, until) = (args.seed.unwrap_or(SEED), args.until.unwrap_or(UNTIL));
    if !(until > 0.0 && until <= 10.0) {
        bail!("--until {until}: a part of the GPUs between 0 and 10, such as 1.3");
    }
    let mix_name = args.mix.as_deref().unwrap_or("learned");
    let sink = args.json.open()?;
    let list = List::of(openb::Trace::read(nodes, pods)?)?;
    let arrivals = match &args.order {
        Some(order) => {
            let order = openb::order(&Text::read(order)?)?;
            sequence::given(&list.trace.pods, &order)?
        }
        None => {
            let target = (list.trace.total_gpu_milli() as f64 * until) as u64;
            sequence::shuffled(&list.trace.pods, seed, target)?
        }
    };
    let prior = prior(mix_name, &list)?;
    let policies = policies(&args.policies(), prior.is_some())?;
    if policies.iter().any(|who| matches!(who, Who::Cleave(_))) {
        for unknown in models::unknown(&list.trace) {
            screen::complain(&format!("cleave: {unknown}"));
        }
    }
    let mut results = Vec::new();
    for who in policies {
        let began = Instant::now();
        let mut times = Times::default();
        let mut progress = Progress::new(who.name(), arrivals.len() as u64);
        let run = match (who, who.baseline(seed)) {
            (_, Some(rule)) => {
                let fleet = list.fleet.shuffled(seed);
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
                Who::Cleave(_) => mix_name.into(),
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
    if sink.wants_tables() {
        screen::print(&tables(&list, arrivals.len(), &results))?;
    }
    sink.put(&json)?;
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

fn policies(names: &[&str], known: bool) -> anyhow::Result<Vec<Who>> {
    let cleave = Who::Cleave(if known { Mix::Prior } else { Mix::Learned });
    let all = [cleave, Who::Fgd, Who::BestFit, Who::Random, Who::Static];
    let mut chosen = Vec::new();
    for name in names {
        match all.iter().find(|who| short(**who) == *name) {
            Some(who) => chosen.push(*who),
            None if *name == "all" => chosen.extend(all),
            None => bail!("--policy {name}: cleave, fgd, bestfit, random, static or all"),
        }
    }
    Ok(chosen)
}

/// The mix that is given beforehand, if any.
fn prior(name: &str, list: &List) -> anyhow::Result<Option<Vec<(cleave_model::ask::Ask, u64)>>> {
    let mix = |pods: &[openb::Pod]| Unsaid::default().mix(pods).context("a name of the list");
    match name {
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
    let width = screen::columns();
    let head = format!(
        "{} nodes with {} GPUs; {} pods arrive, one at a time. None leaves again, and one that \
         fits nowhere is dropped.",
        grouped(list.trace.nodes.len() as u64),
        grouped(gpus),
        grouped(arrivals as u64),
    );
    let mut out = screen::fill(&head, width.min(80), 0) + "\n\n";
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
    points.drain(..points.len().saturating_sub(SHOWN));
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
    let some: String = points.iter().take(2).map(|p| format!("{p} %, ")).collect();
    let line = format!("GPUs in use (%) by the time that pods had asked for {some}… of them");
    out += &format!("{}\n{}", screen::fill(&line, width, 0), table.render());
    let line = "mix: how the policy knows which asks to expect (learned as they come, known \
                beforehand). dropped: pods that fitted nowhere.";
    out += &format!("{}\n", screen::fill(line, width.min(80), 0));
    out += &savings(gpus, results);
    if last <= 80 {
        return out;
    }
    let line = format!(
        "GPUs not in use, as those asked for go from 80 to {last} % of all; █ is 25 % of all"
    );
    out += &format!("\n{}\n", screen::fill(&line, width, 0));
    for result in results {
        let step = 51_usize.div_ceil(width.saturating_sub(9).max(1));
        let left: Vec<f64> = (80..=130)
            .step_by(step)
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
            let line = format!(
                "at 100 % {} has {:.0} {word} GPUs in use than {}",
                first.policy,
                more.abs(),
                other.policy
            );
            out += &format!("{}\n", screen::fill(&line, screen::columns(), 2));
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
