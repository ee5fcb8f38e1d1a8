//! Whole worlds: with every fault at once, and fast ones without.

use cleave_control::Request;
use cleave_engine::{
    planner::{FirstFit, Walk},
    state::{NoSink, State},
};
use cleave_model::{
    Millis, Name,
    ask::{Ask, Constraints, Gpus, Isolation, Part},
    event::Event,
    node::{Health, Node},
    policy::Policy,
    prices::Prices,
    queue::{Amounts, Queue},
    workload::{Class, Group, Workload},
};
use cleave_sim::{Faults, Model, Settings, SplitMix64, World};
use std::collections::BTreeMap;

fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).unwrap()
}

fn node(n: u64, gpus: usize) -> Node {
    Node {
        name: name(format!("node{n:04}")),
        cpu_milli: 16_000,
        memory_bytes: 1 << 34,
        pods: 32,
        gpus: vec![name("A100-40GB"); gpus],
        links: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        pool: name("rack"),
        price_micros: None,
    }
}

fn genesis(nodes: u64, gpus: usize) -> Vec<Event> {
    let queue = Queue {
        name: name("team"),
        parent: None,
        quota: Amounts::default(),
        limit: Amounts::default(),
        weight: 1,
        priority: 0,
    };
    let policy = Policy {
        refine_every: 7,
        refine_lag: 3,
        ..Policy::default()
    };
    let nodes = (0..nodes).map(|n| Event::Node(node(n, gpus)));
    [Event::Policy(policy), Event::Queue(queue)]
        .into_iter()
        .chain(nodes)
        .collect()
}

fn workload(n: u64, at: Millis, random: &mut SplitMix64) -> Workload {
    let part = match random.below(5) {
        0 => None,
        1 => Some(Part::Whole),
        2 => Some(Part::Profile(name("1g.5gb"))),
        3 => Some(Part::Profile(name("2g.10gb"))),
        _ => Some(Part::Profile(name("3g.20gb"))),
    };
    let gpus = part.map(|part| Gpus {
        count: 1,
        part,
        isolation: Isolation::Hard,
        models: Vec::new(),
        graphics: false,
    });
    let workers = 1 + (random.below(4) / 2) as u32;
    let ask = Ask {
        cpu_milli: 500,
        memory_bytes: 1 << 28,
        gpus,
        limits: Constraints::default(),
    };
    Workload {
        name: name(format!("job{n}")),
        queue: name("team"),
        class: Class::Batch,
        priority: 0,
        groups: vec![Group {
            name: name("main"),
            workers,
            min: workers,
            ask,
        }],
        submitted: at,
        duration: Some(10_000 + random.below(200_000)),
    }
}

/// Work comes, some of it is cancelled, nodes are cordoned and emptied and opened again.
fn script(seed: u64, length: u64) -> Vec<(Millis, Request)> {
    let mut random = SplitMix64::new(seed);
    let mut script = Vec::new();
    let mut at = 0;
    for n in 0..length {
        at += random.below(30_000);
        script.push((at, Request::Submit(workload(n, at, &mut random))));
        if random.happens(100) {
            let victim = name(format!("job{}", random.below(n + 1)));
            script.push((at + 1, Request::Cancel(victim)));
        }
        if random.happens(50) {
            let health = [Health::Cordoned, Health::Reclaiming(0)][random.below(2) as usize];
            let node = name(format!("node{:04}", random.below(3)));
            script.push((at + 2, Request::NodeHealth(node.clone(), health)));
            script.push((at + 100_000, Request::NodeHealth(node, Health::Ready)));
        }
    }
    // At the end everything is in service again.
    for n in 0..3 {
        let node = name(format!("node{n:04}"));
        script.push((
            at + 1_000_000,
            Request::NodeHealth(node.clone(), Health::Ready),
        ));
        for gpu in 0..2 {
            script.push((at + 1_000_000, Request::Gpu(node.clone(), gpu, false)));
        }
    }
    script.sort_by_key(|(at, _)| *at);
    script
}

type Simple = World<Walk<FirstFit>, fn(&State) -> Prices>;

fn world(settings: Settings, genesis: Vec<Event>) -> Simple {
    World::new(
        Walk::new(FirstFit::default()),
        |_| Prices::default(),
        settings,
        genesis,
    )
}

fn faulty(seed: u64) -> Simple {
    let faults = Faults::some(900_000);
    let model = Some(Model {
        seed,
        faults,
        ..Model::default()
    });
    let settings = Settings {
        model,
        check: true,
        keep_journal: true,
        ..Settings::default()
    };
    let mut world = world(settings, genesis(3, 2));
    let lived = world.run(script(seed, 20), 20_000_000);
    lived.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    world
}

/// Everything goes wrong for a quarter of an hour. No rule breaks, and in the end everything is
/// done, forgotten and in the journal.
#[test]
fn faulty_worlds_settle() {
    let worlds = std::env::var("CLEAVE_WORLDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(25);
    let (mut restarts, mut failed, mut evicted) = (0, 0, 0);
    for seed in 0..worlds {
        let world = faulty(seed);
        let left = world
            .control()
            .map(|c| c.state().workloads().map(|(n, _)| n.clone()).collect());
        let left: Vec<Name> = left.unwrap_or_default();
        assert!(
            world.is_settled(),
            "seed {seed}: {left:?} at {}",
            world.now()
        );
        let mut replayed = State::new();
        world
            .journal()
            .iter()
            .for_each(|batch| replayed.apply(batch, &mut NoSink));
        let state = world.control().unwrap().state();
        assert_eq!(replayed.canonical(), state.canonical(), "seed {seed}");
        assert_eq!(state.open_actions().count(), 0, "seed {seed}");
        restarts += u64::from(world.control().unwrap().incarnation() > 1);
        failed += world.outcome().failed;
        evicted += world.outcome().evictions;
    }
    // The faults were there.
    assert!(
        restarts * 2 > worlds && failed > worlds && evicted > worlds,
        "{restarts} {failed} {evicted}"
    );
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let (a, b) = (faulty(7), faulty(7));
    assert_eq!(a.journal(), b.journal());
    assert_eq!(a.outcome(), b.outcome());
    assert_ne!(a.journal(), faulty(8).journal());
}

/// Instant and modelled nodes without faults do the same work; the one takes no time for it.
#[test]
fn instant_nodes_only_lack_the_waiting() {
    let run = |model: Option<Model>| {
        let settings = Settings {
            model,
            check: true,
            ..Settings::default()
        };
        let mut world = world(settings, genesis(3, 2));
        let only_work = |(_, request): &(Millis, Request)| matches!(request, Request::Submit(_));
        let script = script(1, 40).into_iter().filter(only_work);
        world.run(script, 20_000_000).unwrap();
        assert!(world.is_settled());
        assert_eq!(world.refused(), []);
        world.outcome().clone()
    };
    let (instant, modelled) = (run(None), run(Some(Model::default())));
    for outcome in [&instant, &modelled] {
        assert_eq!(outcome.submitted, 40);
        assert_eq!(outcome.started, outcome.arrivals);
        assert_eq!(outcome.ended, outcome.arrivals);
        assert_eq!(outcome.placements, outcome.arrivals);
        assert_eq!(outcome.held.last().unwrap().1, 0);
    }
    assert!(instant.wait_percentile(50) < modelled.wait_percentile(50));
    assert!(instant.held_unit_ms(20_000_000) < modelled.held_unit_ms(20_000_000));
}
