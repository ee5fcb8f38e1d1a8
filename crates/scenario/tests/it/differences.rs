//! Expectations that do not hold, and how that reads.

use cleave_model::{
    Name, WorkerId,
    board::Instance,
    lease::{Hold, Lease, Phase, Share, Sharing, Slice},
    verdict::{Dimension, Reason, Verdict},
};
use cleave_scenario::{Scenario, Snapshot, Standing, judge, parse};

const THERE: &str = r#"
cleave: 1
topology: [rack, host]
nodes:
  - {name: "n[0-3]", gpus: 2, board: A100-40GB, labels: {rack: "r[0-1]"},
     links: [{name: pair, groups: [0-1]}, {name: alone, groups: [0, 1]}]}
workloads:
  - {name: pair, workers: 2, gpu: 2}
  - {name: small, gpu: 1g.5gb}
  - {name: big, gpu: 4g.20gb}
  - {name: part, gpu: 0.25, isolation: none}
  - {name: none-left, gpu: 2}
  - {name: waiting, gpu: 1}
  - {name: done, gpu: 1}
  - {name: late, submit: 1h}
"#;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn lease(workload: &str, index: u32, node: &str, slices: Vec<Slice>) -> Lease {
    Lease {
        worker: WorkerId {
            workload: name(workload),
            index,
        },
        attempt: 1,
        hold: Hold {
            node: name(node),
            cpu_milli: 0,
            memory_bytes: 0,
            slices,
        },
        phase: Phase::Running,
        since: 0,
    }
}

fn snapshot(scenario: &Scenario) -> Snapshot {
    let whole = |gpu| Slice {
        gpu,
        instance: None,
        share: None,
    };
    let cut = |gpu, profile: &str, start| {
        let id = scenario
            .catalogue
            .find("A100-40GB")
            .expect("a built-in board");
        let profile = scenario
            .catalogue
            .board(id)
            .profile(profile)
            .expect("a profile");
        Slice {
            instance: Some(Instance { start, profile }),
            ..whole(gpu)
        }
    };
    let share = Some(Share {
        compute: 210_000,
        memory_mib: 10_048,
        by: Sharing::TimeSlice,
    });
    let standing = |verdict| Standing {
        verdict,
        ..Standing::default()
    };
    let mut snapshot = Snapshot {
        leases: vec![
            lease("pair", 0, "n0", vec![whole(0), whole(1)]),
            lease("pair", 1, "n1", vec![whole(0), whole(1)]),
            lease("small", 0, "n2", vec![cut(0, "1g.5gb", 6)]),
            lease("big", 0, "n2", vec![cut(0, "4g.20gb", 0)]),
            lease("part", 0, "n3", vec![Slice { share, ..whole(0) }]),
        ],
        ..Snapshot::default()
    };
    for placed in ["pair", "small", "big", "part"] {
        snapshot
            .standings
            .insert(name(placed), standing(Some(Verdict::Placed)));
    }
    let full = Verdict::Not(Reason::Full(Dimension::Gpu));
    snapshot
        .standings
        .insert(name("none-left"), standing(Some(full)));
    let waits = WorkerId {
        workload: name("small"),
        index: 0,
    };
    let waits = Verdict::WaitsFor(vec![waits]);
    snapshot
        .standings
        .insert(name("waiting"), standing(Some(waits)));
    let done = Standing {
        finished: true,
        evicted: 1,
        moved: 2,
        ..Standing::default()
    };
    snapshot.standings.insert(name("done"), done);
    snapshot
}

/// Judges what is against these expectations.
fn judged(expect: &str, change: impl Fn(&mut Snapshot)) -> String {
    let text = format!("{THERE}expect:\n{expect}");
    let scenario = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let mut snapshot = snapshot(&scenario);
    change(&mut snapshot);
    let all = scenario
        .expects
        .iter()
        .flat_map(|e| judge(&scenario, e, &snapshot));
    let all: Vec<_> = all.map(|difference| difference.to_string()).collect();
    all.join("\n")
}

#[test]
fn what_holds_says_nothing() {
    let right = r#"
  - at: 0s
    running: [pair, small, big, part]
    workers: {pair: 2, waiting: 0, "*a*": {at-most: 2}}
    pending: {none-left: full gpu, waiting: waits}
    on:
      pair: {apart: rack, link: pair, nodes: ["n[0-1]"]}
      small: n2
      part: {same: host, link: alone}
    slices:
      n0/0: [whole]
      n2/0: ["1g.5gb@6", 4g.20gb]
      n2/1: []
      n3/0: [0.25]
    fits: {n2/0: [2g.10gb], n2/1: [3g.20gb, 3g.20gb]}
  - running: {exactly: [pair, small, big, part]}
    pending: {none-left: full}
    evicted: {exactly: 1, among: [done, small], only: done}
    moved: {at-least: 1}
    finished: done
    evictions: {at-most: 1}
    moves: 2
    untouched: [pair, small]
    minimal: true
    stable: 20
  - pending: [none-left, waiting]
  - slices: {n3/0: [10048MiB]}
  - running: {at-most: 3, among: [pair, small, done, big, late]}
"#;
    let looked = |s: &mut Snapshot| {
        s.spare = Some(Vec::new());
        s.restless = Some(Vec::new());
    };
    assert_eq!(judged(right, looked), "");
}

#[test]
fn what_does_not_hold_says_what_is() {
    let wrong = r#"
  - at: 10m
    running: [small, none-left, waiting, done, late]
    workers: {pair: {at-least: 3}}
    pending: {none-left: full slice, waiting: full, small: full, done: full, late: no-nodes}
    on:
      pair: {same: rack}
      small: [n0, n1]
      waiting: n0
      part: {link: pair, apart: host, same: rack}
    slices:
      n0/0: []
      n0/1: [1g.5gb]
      n2/0: ["1g.5gb@5", "4g.20gb@0"]
      n2/1: [whole]
      n3/0: [0.5]
    fits: {n0/0: [1g.5gb], n2/0: [3g.20gb], n2/1: [4g.20gb, 4g.20gb], n3/0: [1g.5gb]}
  - running: {exactly: [pair, small]}
    pending: none
    evicted: none
    moved: {exactly: 2, among: [pair, done]}
    finished: {only: small}
    evictions: 0
    moves: {at-least: 3}
    untouched: [pair, done]
    minimal: true
    stable: 20
  - {minimal: true, stable: 3}
"#;
    let looked = |s: &mut Snapshot| {
        s.spare = Some(vec!["eviction of done.0".into()]);
    };
    insta::assert_snapshot!(judged(wrong, looked));
}

#[test]
fn what_is_cancelled_or_withheld_is_not_counted_on() {
    let small = vec!["1g.5gb"; 257].join(", ");
    let wrong = format!(
        "  - {{pending: [waiting], fits: {{n2/1: [1g.5gb], n3/1: []}}}}
  - fits: {{n1/0: [{small}]}}\n"
    );
    let looked = |s: &mut Snapshot| {
        s.leases.clear();
        s.withheld = [(name("n2"), 1), (name("n3"), 1)].into();
        s.standings.get_mut("waiting").expect("there").cancelled = true;
    };
    let text = judged(&wrong, looked);
    let got: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("  got "))
        .collect();
    let shut = "a GPU that takes nothing now";
    assert_eq!(got[..3], ["cancelled", shut, shut], "{text}");
    assert!(got[3].starts_with("none beside"), "{text}");
}
