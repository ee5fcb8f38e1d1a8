//! Streams of MIG slices.

use std::path::Path;
use std::thread;

use anyhow::Result;
use cleave_lab::study::mixes::{self, Compared};
use cleave_lab::study::slices::{Filled, Rule};
use serde_json::{Value, json};

use super::row::{Row, Taker, hundredths};

const SEEDS: u64 = 200;

/// All schedulers on so many seeds.
pub fn mixes(_data: &Path, words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let seeds = words.first().map_or(Ok(SEEDS), |word| word.parse())?;
    let mut taker = Taker::new();
    let all = taker.time(|| compared(seeds));
    let arrivals: usize = all.iter().map(|one| one.arrivals).sum();
    let input = json!({
        "gpus": mixes::GPUS, "board": "H100-80GB-SXM", "profiles": mixes::PROFILES,
        "seeds": format!("1-{seeds}"), "mixes": "Dirichlet(1)", "arrivals": arrivals,
    });
    let mut by: Vec<(&str, Vec<Filled>)> = vec![
        ("cleave-known", all.iter().map(|one| one.known).collect()),
        (
            "cleave-learned",
            all.iter().map(|one| one.learned).collect(),
        ),
    ];
    for (at, rule) in Rule::ALL.iter().enumerate() {
        by.push((rule.name(), all.iter().map(|one| one.rules[at]).collect()));
    }
    let mut outcome = serde_json::Map::new();
    for (name, filled) in by {
        let mut of = means(&filled);
        if name.starts_with("cleave") {
            of.push(against(&all, &filled));
        }
        outcome.insert(name.to_owned(), Value::Array(of));
    }
    let bound = all.iter().map(|one| one.bound).sum::<f64>() / all.len() as f64;
    outcome.insert("bound_weight_percent".into(), json!(hundredths(bound)));
    note(taker.row("mig-mixes", input, outcome.into()));
    Ok(())
}

/// Every seed; the seeds are independent and go over the cores.
fn compared(seeds: u64) -> Vec<Compared> {
    let geometry = mixes::geometry();
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut all: Vec<Compared> = thread::scope(|scope| {
        let worker = |first| {
            let geometry = &geometry;
            scope.spawn(move || {
                let seeds = (1..=seeds).skip(first).step_by(cores);
                seeds
                    .map(|seed| mixes::compare(geometry, seed))
                    .collect::<Vec<_>>()
            })
        };
        let workers: Vec<_> = (0..cores).map(worker).collect();
        let done = workers
            .into_iter()
            .map(|worker| worker.join().expect("no study panics"));
        done.flatten().collect()
    });
    all.sort_by_key(|one| one.seed);
    all
}

/// Means of memory, compute and weight, %.
fn means(filled: &[Filled]) -> Vec<Value> {
    let mean = |of: fn(&Filled) -> f64| {
        hundredths(filled.iter().map(of).sum::<f64>() / filled.len() as f64)
    };
    [mean(|f| f.memory), mean(|f| f.compute), mean(|f| f.weight)]
        .map(Value::from)
        .to_vec()
}

/// Against the best rule of others on each seed, by weight.
fn against(all: &[Compared], filled: &[Filled]) -> Value {
    let mut gaps: Vec<(f64, u64)> = (all.iter().zip(filled))
        .map(|(one, ours)| {
            let best = one.rules.iter().map(|f| f.weight).fold(0.0, f64::max);
            (ours.weight - best, one.seed)
        })
        .collect();
    gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let below = |limit: f64| {
        let count = gaps.iter().filter(|(gap, _)| *gap < -limit).count();
        hundredths(count as f64 * 100.0 / gaps.len() as f64)
    };
    let worst = |&(gap, seed): &(f64, u64)| json!([seed, hundredths(gap)]);
    json!({
        "seeds_below_best_by_0.3_percent": below(0.3),
        "seeds_below_best_by_0.8_percent": below(0.8),
        "worst_seeds": gaps.iter().take(5).map(worst).collect::<Vec<_>>(),
        "best_seed": gaps.last().map(worst),
    })
}
