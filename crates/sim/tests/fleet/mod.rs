//! A small cluster of many kinds, and work of every kind for it.

use cleave_model::{
    GPU, Millis, Name,
    ask::{Affinity, AffinityKind, Ask, Constraints, Gpus, Isolation, Part},
    event::Event,
    node::{LinkLevel, Node},
    policy::Policy,
    queue::{Amounts, Queue},
    workload::{Class, Group, Workload},
};
use cleave_sim::SplitMix64;
use std::collections::BTreeMap;

const A100: &str = "A100-40GB";
const H100: &str = "H100-80GB-SXM";
const T4: &str = "T4";
const RTX: &str = "RTX-PRO-6000-Blackwell-96GB";
const GIB: u64 = 1 << 30;

/// GPUs, zone and taint of each node.
const NODES: [(&[&str], &str, Option<&str>); 9] = [
    (&[A100, A100], "a", None),
    (&[A100, A100], "b", None),
    (&[H100, H100, H100, H100], "a", None),
    (&[H100, H100, H100, H100], "b", None),
    (&[T4, T4], "b", None),
    (&[RTX, RTX], "a", Some("graphics")),
    (&[], "a", None),
    (&[], "b", None),
    (&[A100, T4], "a", None),
];

pub fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).unwrap()
}

/// The nodes by number.
pub fn nodes() -> Vec<Node> {
    (0..).zip(NODES).map(|(n, row)| node(n, row)).collect()
}

fn node(n: usize, (gpus, zone, taint): (&[&str], &str, Option<&str>)) -> Node {
    let pairs = LinkLevel {
        name: name("nvlink"),
        groups: vec![vec![0, 1], vec![2, 3]],
    };
    Node {
        name: name(format!("node{n}")),
        cpu_milli: 16_000,
        memory_bytes: 32 * GIB,
        pods: 12,
        gpus: gpus.iter().map(name).collect(),
        links: if gpus.len() == 4 { vec![pairs] } else { vec![] },
        labels: BTreeMap::from([(name("zone"), name(zone))]),
        taints: taint.iter().map(name).collect(),
        pool: name("rack"),
        price_micros: None,
    }
}

/// Two queues and the nodes. Prices are asked for often.
pub fn genesis() -> Vec<Event> {
    let queue = |(priority, text): (i32, &str)| {
        Event::Queue(Queue {
            name: name(text),
            parent: None,
            quota: Amounts::default(),
            limit: Amounts::default(),
            weight: 1,
            priority,
        })
    };
    let policy = Event::Policy(Policy {
        refine_every: 100,
        refine_lag: 3,
        ..Policy::default()
    });
    let queues = [(0, "team"), (1, "prod")].map(queue);
    let nodes = nodes().into_iter().map(Event::Node);
    [policy].into_iter().chain(queues).chain(nodes).collect()
}

/// What one worker wants of GPUs. Two of the largest fit at once.
fn gpus(random: &mut SplitMix64) -> Option<Gpus> {
    let profile = |text: &str| Part::Profile(name(text));
    let share = |compute: Option<u32>, memory_mib: Option<u32>| Part::Share {
        compute,
        memory_mib,
    };
    let (none, limited, hard) = (Isolation::None, Isolation::Limited, Isolation::Hard);
    let (count, part, isolation, models): (u32, Part, Isolation, &[&[&str]]) =
        match random.below(17) {
            0..=2 => return None,
            3 => (1, Part::Whole, hard, &[]),
            4 => (2, Part::Whole, hard, &[&["H100"], &["A100"]]),
            5 => (4, Part::Whole, hard, &[&[H100]]),
            6 => (1, profile("1g.5gb"), hard, &[]),
            7 => (2, profile("2g.10gb"), hard, &[&["A100"]]),
            8 => (1, profile("3g.40gb"), hard, &[]),
            9 => (3, profile("1g.10gb"), hard, &[&["H100"]]),
            10 => (1, profile("1g.24gb"), hard, &[]),
            11 => (1, share(Some(GPU / 4), None), none, &[]),
            12 => (
                2,
                share(Some(GPU / 7), Some(2_000)),
                none,
                &[&["T4", "A100"]],
            ),
            13 => (1, share(None, Some(8_000)), limited, &[]),
            14 => (
                1,
                share(Some(GPU / 3), Some(6_000)),
                limited,
                &[&["T4"], &[]],
            ),
            15 => (1, share(None, Some(9_000)), hard, &[&["A100"], &["H100"]]),
            _ => (1, share(None, Some(18_000)), hard, &[]),
        };
    let models = models.iter().map(|tier| tier.iter().map(name).collect());
    Some(Gpus {
        count,
        part,
        isolation,
        models: models.collect(),
        graphics: false,
    })
}

/// Where it may run; `n` is the number of its workload.
fn limits(n: u64, random: &mut SplitMix64) -> Constraints {
    let mut limits = Constraints::default();
    if random.happens(100) {
        let zone = ["a", "b"][random.below(2) as usize];
        limits.select.insert(name("zone"), name(zone));
    }
    if random.happens(400) {
        let key = ["graphics", "all"][random.below(2) as usize];
        limits.tolerate.push(name(key));
    }
    if random.happens(150) {
        let other = |random: &mut SplitMix64| job(n - random.below(n.min(8)));
        let (kind, level) = match random.below(3) {
            0 => (AffinityKind::Near, "zone"),
            1 => (AffinityKind::Apart, "zone"),
            _ => (AffinityKind::Apart, "host"),
        };
        let with = (0..1 + random.below(2)).map(|_| other(random)).collect();
        let level = name(level);
        limits.affinity.push(Affinity { kind, level, with });
    }
    limits
}

/// The name of workload number `n`.
pub fn job(n: u64) -> Name {
    name(format!("job{n}"))
}

/// Workload number `n`, from 1.
pub fn workload(n: u64, at: Millis, random: &mut SplitMix64) -> Workload {
    let groups = 1 + u64::from(random.happens(150));
    let groups = (0..groups).map(|group| {
        let gpus = gpus(random);
        let large = gpus.as_ref().is_some_and(|gpus| gpus.part == Part::Whole);
        let workers = 1 + random.below(if large { 2 } else { 4 }) as u32;
        Group {
            name: name(format!("group{group}")),
            workers,
            min: 1 + random.below(workers.into()) as u32,
            ask: Ask {
                cpu_milli: 500 << random.below(3),
                memory_bytes: GIB >> random.below(3),
                gpus,
                limits: limits(n, random),
            },
        }
    });
    let groups = groups.collect();
    Workload {
        name: job(n),
        queue: name(["team", "prod"][random.below(2) as usize]),
        class: [Class::Batch, Class::Training][random.below(2) as usize],
        priority: random.below(3) as i32,
        groups,
        submitted: at,
        duration: Some(5_000 + random.below(150_000)),
        // Not drawn, so that the worlds are what they were.
        retries: (n % 3) as u32,
    }
}
