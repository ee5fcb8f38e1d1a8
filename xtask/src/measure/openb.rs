//! The openb lists, beside the results published with FGD.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use cleave_lab::study::departures;
use cleave_lab::study::openb::{self, List, Times, Who};
use cleave_lab::trace::fgd::Spread;
use cleave_model::policy::Mix;
use serde_json::{Map, Value, json};

use super::row::{Row, Taker, hundredths, quantile};

/// Of the published orders these are stored; other lists are shuffled with the same seeds.
const SEEDS: std::ops::RangeInclusive<u64> = 42..=46;
const PERCENTS: [usize; 6] = [80, 90, 95, 100, 110, 130];
const LOAD_PERCENT: u64 = 95;

/// The most that a scheduler without refusal and with unlimited moves reaches at 100 and 130 %
/// arrived: a fluid linear program (HiGHS), block by block, on the arrivals of seed 42; CPU and
/// memory summed per node type. A reference, not a strict bound.
const CEILINGS: &[(&str, f64, f64)] = &[
    ("default", 96.33, 96.42),
    ("gpuspec33", 96.07, 96.44),
    ("gpushare100", 88.37, 88.61),
    ("multigpu50", 97.98, 98.02),
    ("multigpu20", 96.87, 96.94),
    ("cpu250", 96.32, 96.32),
    ("gpuspec20", 96.35, 96.43),
    ("gpuspec05", 96.35, 96.43),
    ("gpushare40", 94.98, 95.07),
    ("gpushare20", 97.36, 97.41),
    ("cpu0", 96.33, 96.39),
    ("cpu037", 96.34, 96.41),
    ("cpu050", 96.35, 96.41),
    ("cpu100", 96.33, 96.39),
];

fn lists(data: &Path, words: &[&str]) -> Result<Vec<List>> {
    let folder = data.join("openb");
    let names = match words {
        [] => openb::lists(&folder)?,
        named => named.iter().map(|name| (*name).to_owned()).collect(),
    };
    let lists = names.iter().map(|name| List::read(&folder, name));
    Ok(lists.collect::<Result<_, _>>()?)
}

fn input(list: &List) -> Map<String, Value> {
    let trace = &list.trace;
    let gpus: u32 = trace.nodes.iter().map(|node| node.gpus).sum();
    let facts = json!({
        "list": list.name, "nodes": trace.nodes.len(), "gpus": gpus, "pods": trace.pods.len(),
        "kinds": list.kinds(), "seeds": format!("{}-{}", SEEDS.start(), SEEDS.end()),
    });
    facts.as_object().cloned().unwrap_or_default()
}

/// Every list with every scheduler.
pub fn allocation(data: &Path, words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let published = openb::published(&data.join("openb"))?;
    for list in lists(data, words)? {
        let given = list.arrivals(*SEEDS.start())?.1;
        let orders = if given { "published" } else { "own" };
        for who in Who::ALL {
            let mut taker = Taker::new();
            let mut runs = Vec::new();
            for seed in SEEDS {
                runs.push(taker.time(|| openb::run(&list, who, seed))?.0);
            }
            let at = |percent: usize| {
                let values: Vec<f64> = runs.iter().filter_map(|r| r.allocated[percent]).collect();
                let ours = Spread::of(&values)?;
                let workload = format!("openb_pod_list_{}", list.name);
                let theirs = who.published_name();
                let theirs = theirs.and_then(|who| published.spread(&workload, who, percent));
                let mut cell = json!({
                    "mean": hundredths(ours.mean), "sd": hundredths(ours.sd),
                });
                if let Some(theirs) = theirs {
                    cell["published"] = json!(hundredths(theirs.mean));
                    cell["gap"] = json!(hundredths(ours.mean - theirs.mean));
                }
                Some((format!("allocated_at_{percent:03}"), cell))
            };
            let mut outcome: Map<String, Value> = PERCENTS.into_iter().filter_map(at).collect();
            let sum =
                |of: fn(&cleave_lab::protocol::Run) -> usize| runs.iter().map(of).sum::<usize>();
            outcome.insert("placed".into(), sum(|r| r.placed).into());
            outcome.insert("dropped".into(), sum(|r| r.dropped).into());
            let ceiling = CEILINGS.iter().find(|(name, ..)| *name == list.name);
            if let Some(&(_, at_100, at_130)) = ceiling {
                outcome.insert("ceiling_at_100_and_130".into(), json!([at_100, at_130]));
            }
            let mut input = input(&list);
            input.insert("orders".into(), orders.into());
            let name = format!("openb {} {}", list.name, who.name());
            note(taker.row(name, input.into(), outcome.into()));
        }
    }
    Ok(())
}

/// Every list with every scheduler at a steady load.
pub fn departures(data: &Path, words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let words = if words.is_empty() {
        &["default", "gpuspec33"]
    } else {
        words
    };
    for list in lists(data, words)? {
        for who in Who::ALL {
            let mut taker = Taker::new();
            let mut runs = Vec::new();
            for seed in SEEDS {
                let run = || departures::run(&list, who, seed, LOAD_PERCENT);
                runs.push(taker.time(run)?);
            }
            let over = |of: fn(&departures::Steady) -> f64| {
                let values: Vec<f64> = runs.iter().map(of).collect();
                let spread = Spread::of(&values).expect("seeds are run");
                json!({ "mean": hundredths(spread.mean), "sd": hundredths(spread.sd) })
            };
            let outcome = json!({
                "allocated_percent": over(|r| r.allocated),
                "offered_percent": over(|r| r.offered),
                "refused_work_percent": over(|r| r.refused_work),
                "refused_pods_percent": over(|r| r.refused_pods),
                "pods": runs.iter().map(|r| r.arrived).sum::<u64>(),
            });
            let mut input = input(&list);
            input.insert("load_percent".into(), LOAD_PERCENT.into());
            input.insert("holding".into(), "exponential, mean 1 h".into());
            let name = format!("openb-departures {} {}", list.name, who.name());
            note(taker.row(name, input.into(), outcome));
        }
    }
    Ok(())
}

/// One decision after another on the default list.
pub fn decision(data: &Path, _words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    for list in lists(data, &["default"])? {
        for who in [Who::Cleave(Mix::Prior), Who::Cleave(Mix::Learned)] {
            let mut taker = Taker::new();
            let seed = *SEEDS.start();
            let (run, times) = taker.time(|| openb::run(&list, who, seed))?;
            let Times {
                decisions,
                repriced,
                refinements,
            } = times;
            let outcome = json!({
                "decisions_us": spread(decisions),
                "with_new_prices_us": spread(repriced),
                "refinement_us": spread(refinements),
                "placed": run.placed, "dropped": run.dropped,
            });
            let mut input = input(&list);
            input.insert("seeds".into(), seed.into());
            let name = format!("decision {}", who.name());
            note(taker.row(name, input.into(), outcome));
        }
    }
    Ok(())
}

/// Count, median, 99th percentile and maximum in microseconds.
fn spread(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let us = |thousandths| (quantile(&times, thousandths).as_secs_f64() * 1e7).round() / 10.0;
    json!({ "count": times.len(), "p50": us(500), "p99": us(990), "max": us(1_000) })
}
