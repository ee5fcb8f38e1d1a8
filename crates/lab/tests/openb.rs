//! The restated schedulers against the results their authors published.
//!
//! The lists may not be copied into the source, so that these tests need a data directory:
//! `$CLEAVE_DATA`. Without it they say so and pass.

use std::path::{Path, PathBuf};

use cleave_model::event::Event;
use cleave_model::policy::Policy;

use cleave_lab::baseline::bestfit::BestFit;
use cleave_lab::baseline::fgd::Fgd;
use cleave_lab::baseline::random::Random;
use cleave_lab::baseline::whole::WholeGpus;
use cleave_lab::baseline::{self, Fleet};
use cleave_lab::convert::Unsaid;
use cleave_lab::planners;
use cleave_lab::protocol::{self, Run};
use cleave_lab::trace::fgd::Curves;
use cleave_lab::trace::jobs::{self, ColumnMap, Gpus};
use cleave_lab::trace::openb::{self, Trace};
use cleave_lab::trace::{Text, sequence};

/// The authors' order of the nodes in their run with seed 42, and with 43.
const NODE_ORDERS: &str = include_str!("data/fgd-node-orders.txt");

/// The folder of the data directory, or none with a word on standard output.
#[allow(clippy::print_stdout, reason = "a skipped test says why")]
fn data(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("CLEAVE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join(folder);
    if !folder.is_dir() {
        println!(
            "skipped: no {}: set CLEAVE_DATA to the data directory",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

fn default_trace(openb: &Path) -> Trace {
    Trace::read(
        openb.join("openb_node_list_gpu_node.csv"),
        openb.join("openb_pod_list_default.csv"),
    )
    .expect("the published lists are valid")
}

fn published(openb: &Path, what: &str) -> Curves {
    let file = openb.join(format!("fgd-expected/analysis_{what}_discrete.csv.gz"));
    Curves::read(&Text::read(file).expect("there")).expect("valid")
}

/// The default list as in the authors' run with this seed: pods and nodes in their order.
fn authors_run(openb: &Path, seed: u64, policy: impl baseline::Policy) -> Run {
    let trace = default_trace(openb);
    let order = openb.join(format!("fgd-sequences/default-1.3-{seed}.txt.zst"));
    let order = openb::order(&Text::read(order).expect("there")).expect("valid");
    let arrivals = sequence::given(&trace.pods, &order).expect("of this list");

    let orders: Vec<&str> = NODE_ORDERS
        .lines()
        .filter(|l| !l.starts_with('#'))
        .collect();
    let places = orders[(seed - 42) as usize].split(' ');
    let mut by_place = vec![0; trace.nodes.len()];
    for (node, place) in places.enumerate() {
        by_place[place.parse::<usize>().expect("a number")] = node;
    }
    let fleet = Fleet::of(&trace).expect("few models").ordered(&by_place);
    protocol::run(&fleet, arrivals.iter().map(|a| a.pod), policy)
}

#[test]
fn fgd_and_best_fit_repeat_the_published_runs() {
    let Some(openb) = data("openb") else { return };
    let (allocated, fragmented) = (published(&openb, "allo"), published(&openb, "frag"));
    for (policy, seed, run) in [
        ("FGD", 42, authors_run(&openb, 42, Fgd::default())),
        ("FGD", 43, authors_run(&openb, 43, Fgd::default())),
        ("BestFit", 42, authors_run(&openb, 42, BestFit)),
    ] {
        for (what, curves, ours) in [
            ("allocated", &allocated, &run.allocated),
            ("fragmented", &fragmented, &run.fragmented),
        ] {
            let mut runs = curves.runs("openb_pod_list_default", policy);
            let theirs = runs.find(|c| c.seed == seed).expect("published");
            for (percent, (ours, theirs)) in ours.iter().zip(&theirs.percent).enumerate() {
                let (ours, theirs) = (ours.expect("arrived"), theirs.expect("published"));
                // Both are rounded to hundredths, once as the mean of rounded values.
                let near = (ours - theirs).abs() < 0.011;
                assert!(
                    near,
                    "{policy} {seed} {what} at {percent} %: {ours}, published {theirs}"
                );
            }
        }
    }
}

#[test]
fn an_own_order_of_nodes_and_pods_comes_to_the_published_means() {
    let Some(openb) = data("openb") else { return };
    let trace = default_trace(&openb);
    let curves = published(&openb, "allo");
    let seed = 7;
    let fleet = Fleet::of(&trace).expect("few models").shuffled(seed);
    let target = trace.total_gpu_milli() * 13 / 10;
    let arrivals = sequence::shuffled(&trace.pods, seed, target).expect("GPU pods");
    let mut at_100 = Vec::new();
    for (name, policy) in [
        ("FGD", Box::new(Fgd::default()) as Box<dyn baseline::Policy>),
        ("BestFit", Box::new(BestFit)),
        ("Random", Box::new(Random::new(seed))),
        ("WholeGpus", Box::new(WholeGpus)),
    ] {
        let run = protocol::run(&fleet, arrivals.iter().map(|a| a.pod), policy);
        assert_eq!(run.placed + run.dropped, arrivals.len());
        for percent in [80, 90, 95, 100, 110, 130] {
            let ours = run.allocated[percent].expect("arrived");
            let list = "openb_pod_list_default";
            if let Some(theirs) = curves.spread(list, name, percent) {
                // One run of ours against the spread of theirs.
                let near = (ours - theirs.mean).abs() < (4.0 * theirs.sd).max(0.3);
                assert!(near, "{name} at {percent} %: {ours}, published {theirs:?}");
            }
        }
        at_100.push(run.allocated[100].expect("arrived"));
    }
    assert!(
        at_100.is_sorted_by(|better, worse| better > worse),
        "{at_100:?}"
    );
}

#[test]
fn every_published_list_is_read() {
    let Some(openb) = data("openb") else { return };
    let mut pods = 0;
    for entry in std::fs::read_dir(&openb).expect("there") {
        let path = entry.expect("readable").path();
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let text = || Text::read(&path).unwrap_or_else(|e| panic!("{e}"));
        if name.starts_with("openb_pod_list_") {
            pods += openb::pods(&text()).unwrap_or_else(|e| panic!("{e}")).len();
        } else if name.starts_with("openb_node_list_") {
            openb::nodes(&text()).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    assert!(pods > 8_152, "{pods}");
}

#[test]
fn job_lists_of_others_are_read() {
    let Some(muri) = data("muri/simulator/trace-data") else {
        return;
    };
    let map: ColumnMap = "submit=submit_time:ms,duration=duration:ms"
        .parse()
        .expect("a map");
    let text = Text::read(muri.join("trace3.csv")).expect("there");
    let jobs = jobs::read(&text, &map).unwrap_or_else(|e| panic!("{e}"));
    let gpu_ms = |job: &jobs::Job| match job.gpus {
        Gpus::Whole(gpus) => u64::from(gpus) * job.duration_ms.expect("given"),
        Gpus::Milli(milli) => panic!("{milli} milli in a list of whole GPUs"),
    };
    let gpu_hours = jobs.iter().map(gpu_ms).sum::<u64>() / 3_600_000;
    assert_eq!((jobs.len(), gpu_hours), (992, 116_690));

    let Some(gavel) = data("gavel") else { return };
    let text = Text::read(gavel.join("philly_vc_jobs_gavel_seed0.csv.gz")).expect("there");
    let map = "id=job_index,duration=duration_v100_s"
        .parse()
        .expect("a map");
    let wrong = jobs::read(&text, &map)
        .expect_err("numbered anew in each VC")
        .to_string();
    assert!(wrong.contains("names must be unique"), "{wrong}");
}

/// The restated FGD behind the engine's interface decides as it does on plain nodes.
#[test]
fn a_baseline_is_the_same_behind_the_engine() {
    let Some(openb) = data("openb") else { return };
    let trace = default_trace(&openb);
    let fleet = Fleet::of(&trace).expect("few models");
    let target = trace.total_gpu_milli() * 955 / 1_000;
    let arrivals = sequence::shuffled(&trace.pods, 5, target).expect("GPU pods");
    let plain = protocol::run(&fleet, arrivals.iter().map(|a| a.pod), Fgd::default());

    let unsaid = Unsaid::default();
    let unpriced = Policy {
        refine_every: 0,
        ..Policy::default()
    };
    let mut facts = vec![
        Event::Policy(unpriced),
        Event::Queue(unsaid.queue()),
        Event::Prior(unsaid.mix(&trace.pods).expect("legal names")),
    ];
    let node = |node| Event::Node(unsaid.node(node).expect("legal names"));
    facts.extend(trace.nodes.iter().map(node));
    let names = sequence::names(&trace.pods, &arrivals);
    let work = arrivals
        .iter()
        .zip(&names)
        .zip(0..)
        .map(|((arrival, name), submitted)| {
            let pod = &trace.pods[arrival.pod];
            let work = unsaid.pod(pod, name, submitted).expect("legal names");
            (work, pod.total_gpu_milli())
        });
    let planned = protocol::run_planner(facts, work, planners::planner(Fgd::default()), |_| {});
    assert_eq!(
        (planned.placed, planned.dropped),
        (plain.placed, plain.dropped)
    );
    assert_eq!(planned.allocated, plain.allocated);
    assert_eq!(planned.fragmented, plain.fragmented);
}
