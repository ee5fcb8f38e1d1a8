//! Published schedulers on the openb lists, against the published results.
//!
//! ```text
//! cargo run --release -p cleave-lab --example bench-openb [-- LIST..]
//! ```
//!
//! A LIST is `default`, `gpuspec33` and so on; all that are in the data directory where none is
//! named. The data directory is `$CLEAVE_DATA`. The default list runs in the published arrival
//! orders (seeds 42 to 46), others in own orders of the same seeds; nodes in an own order of each.

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use cleave_lab::baseline::Fleet;
use cleave_lab::baseline::bestfit::BestFit;
use cleave_lab::baseline::fgd::Fgd;
use cleave_lab::baseline::random::Random;
use cleave_lab::baseline::whole::WholeGpus;
use cleave_lab::protocol::{self, Run};
use cleave_lab::trace::fgd::{Curves, Spread};
use cleave_lab::trace::openb::{self, Trace};
use cleave_lab::trace::{Text, sequence};

type Failure = Box<dyn std::error::Error>;

const SEEDS: std::ops::RangeInclusive<u64> = 42..=46;
const PERCENTS: [usize; 6] = [80, 90, 95, 100, 110, 130];
const POLICIES: [&str; 4] = ["WholeGpus", "Random", "BestFit", "FGD"];

fn main() -> Result<(), Failure> {
    let data = std::env::var("CLEAVE_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    let openb = Path::new(&data).join("openb");
    let expected = |what: &str| {
        let file = format!("fgd-expected/analysis_{what}_discrete.csv.gz");
        Curves::read(&Text::read(openb.join(file))?)
    };
    let (allocated, fragmented) = (expected("allo")?, expected("frag")?);
    let mut lists: Vec<String> = std::env::args().skip(1).collect();
    if lists.is_empty() {
        lists = all_lists(&openb)?;
    }
    println!("allocated %, and fragmented %, of all GPU milli: ours (published, gap), arrived at");
    for list in lists {
        let trace = Trace::read(
            openb.join("openb_node_list_gpu_node.csv"),
            list_path(&openb, &list),
        )?;
        let fleet = Fleet::of(&trace)?;
        for policy in POLICIES {
            let started = Instant::now();
            let mut runs = Vec::new();
            for seed in SEEDS {
                let arrivals = arrivals(&openb, &list, &trace, seed)?;
                runs.push(run(policy, &fleet.shuffled(seed), &arrivals, seed));
            }
            let pods: usize = runs.iter().map(|r| r.placed + r.dropped).sum();
            let speed = pods as f64 / started.elapsed().as_secs_f64();
            println!("{list} {policy}: {pods} pods, {speed:.0} pods/s");
            for (what, published, curve) in [
                (
                    "allocated ",
                    &allocated,
                    (|r| &r.allocated) as fn(&Run) -> &Vec<Option<f64>>,
                ),
                ("fragmented", &fragmented, |r| &r.fragmented),
            ] {
                print!("  {what}");
                for percent in PERCENTS {
                    let values: Vec<f64> = runs.iter().filter_map(|r| curve(r)[percent]).collect();
                    let ours = Spread::of(&values).map_or(f64::NAN, |s| s.mean);
                    print!("  {percent}: {ours:.2}");
                    let workload = format!("openb_pod_list_{list}");
                    if let Some(theirs) = published.spread(&workload, policy, percent) {
                        print!(" ({:.2}, {:+.2})", theirs.mean, ours - theirs.mean);
                    }
                }
                println!();
            }
        }
    }
    Ok(())
}

fn run(policy: &str, fleet: &Fleet, arrivals: &[usize], seed: u64) -> Run {
    let arrivals = arrivals.iter().copied();
    match policy {
        "WholeGpus" => protocol::run(fleet, arrivals, WholeGpus),
        "Random" => protocol::run(fleet, arrivals, Random::new(seed)),
        "BestFit" => protocol::run(fleet, arrivals, BestFit),
        _ => protocol::run(fleet, arrivals, Fgd::default()),
    }
}

/// The published order where there is one, else an own one up to 130 % of capacity.
fn arrivals(openb: &Path, list: &str, trace: &Trace, seed: u64) -> Result<Vec<usize>, Failure> {
    let published = openb.join(format!("fgd-sequences/{list}-1.3-{seed}.txt.zst"));
    let arrivals = if published.exists() {
        sequence::given(&trace.pods, &openb::order(&Text::read(published)?)?)?
    } else {
        sequence::shuffled(&trace.pods, seed, trace.total_gpu_milli() * 13 / 10)?
    };
    Ok(arrivals.iter().map(|a| a.pod).collect())
}

fn list_path(openb: &Path, list: &str) -> PathBuf {
    let plain = openb.join(format!("openb_pod_list_{list}.csv"));
    if plain.exists() {
        plain
    } else {
        plain.with_extension("csv.gz")
    }
}

fn all_lists(openb: &Path) -> Result<Vec<String>, Failure> {
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(openb)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let list = name.strip_prefix("openb_pod_list_");
        lists.extend(list.and_then(|l| l.split('.').next()).map(str::to_owned));
    }
    lists.sort_unstable();
    Ok(lists)
}
