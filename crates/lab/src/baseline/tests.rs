//! Hand-worked scores, and the board against scoring everything anew.

use proptest::prelude::*;

use super::bestfit::BestFit;
use super::fgd::{Fgd, TypicalPods};
use super::random::Random;
use super::whole::WholeGpus;
use super::*;

fn node(cpu: u32, model: u8, gpus: &[u16]) -> Node {
    Node {
        cpu_milli: cpu * 1_000,
        memory_mib: 1_000,
        model: (!gpus.is_empty()).then_some(model),
        gpu_milli: gpus.to_vec(),
    }
}

fn ask(cpu: u32, gpus: u16, gpu_milli: u16) -> Request {
    Request {
        cpu_milli: cpu * 1_000,
        memory_mib: 10,
        gpus,
        gpu_milli,
        models: Models::ANY,
    }
}

fn only(model: u8, request: Request) -> Request {
    Request {
        models: Models::of(1, [model]),
        ..request
    }
}

fn fleet(nodes: Vec<Node>, requests: Vec<Request>) -> Fleet {
    Fleet {
        models: vec!["A".to_owned(), "B".to_owned()],
        names: (0..nodes.len()).map(|n| format!("n{n}")).collect(),
        nodes,
        requests,
    }
}

#[test]
fn what_fits() {
    let n = node(8, 0, &[1_000, 400, 1_000]);
    for (request, fits) in [
        (ask(8, 2, 1_000), true),
        (ask(9, 2, 1_000), false),
        (ask(1, 3, 1_000), false),
        (ask(1, 1, 401), true),
        (only(0, ask(1, 1, 400)), true),
        (only(1, ask(1, 1, 400)), false),
        (ask(8, 0, 0), true),
        (
            Request {
                memory_mib: 1_001,
                ..ask(1, 0, 0)
            },
            false,
        ),
    ] {
        assert_eq!(n.fits(&request), fits, "{request:?}");
    }
    assert!(node(1, 0, &[]).fits(&ask(1, 0, 0)));
    assert!(!node(1, 0, &[]).fits(&only(0, ask(1, 0, 0))));
}

#[test]
fn fragmentation_by_hand() {
    // Four kinds, a quarter of the pods each: one GPU of any model, half a GPU of model 1, a
    // large CPU, and no GPU.
    let kinds = [
        ask(4, 1, 1_000),
        only(1, ask(4, 1, 500)),
        ask(64, 1, 100),
        ask(1, 0, 0),
    ];
    let typical = TypicalPods::of(&kinds.map(|kind| (kind, 3)));
    for (n, expected) in [
        // Whole: only the 400 are too small. Half: both roomy enough or not. Large CPU: all 1,400
        // lost. No GPU: all 1,400 lost.
        (
            node(8, 0, &[1_000, 400]),
            (400.0 + 1_400.0 + 1_400.0 + 1_400.0) / 4.0,
        ),
        (
            node(8, 1, &[1_000, 400]),
            (400.0 + 400.0 + 1_400.0 + 1_400.0) / 4.0,
        ),
        (
            node(64, 1, &[1_000, 400]),
            (400.0 + 400.0 + 0.0 + 1_400.0) / 4.0,
        ),
        (node(2, 1, &[300]), 300.0),
        (node(64, 1, &[0, 0]), 0.0),
        (node(64, 1, &[]), 0.0),
    ] {
        assert_eq!(typical.fragmented_milli(&n), expected, "{n:?}");
    }
    // The rarest kind of a hundred pods is not typical, the rest share its weight.
    let rare = [ask(1, 1, 10), ask(2, 1, 10), ask(3, 1, 10)].map(|kind| (kind, 1));
    let many = [&[(ask(1, 1, 1_000), 97)], &rare[..]].concat();
    assert_eq!(
        TypicalPods::of(&many).fragmented_milli(&node(8, 0, &[999])),
        999.0
    );
}

#[test]
fn choices_by_hand() {
    let nodes = vec![
        node(64, 0, &[1_000, 600]),
        node(16, 0, &[1_000]),
        node(16, 0, &[600]),
    ];
    let requests = vec![ask(4, 1, 1_000), ask(4, 1, 600), ask(4, 0, 0)];
    let fleet = fleet(nodes, requests);
    let choice = |mut policy: Box<dyn Policy>, request| {
        policy.expect(&fleet.mix());
        let chosen = Board::new(fleet.nodes.clone(), policy).choose(&request);
        chosen.map(|c| (c.node, c.gpus))
    };
    // 600 fit the third node exactly: fullest for best fit, least broken for FGD.
    assert_eq!(
        choice(Box::new(BestFit), ask(4, 1, 600)),
        Some((2, vec![0]))
    );
    assert_eq!(
        choice(Box::<Fgd>::default(), ask(4, 1, 600)),
        Some((0, vec![1]))
    );
    assert_eq!(
        choice(Box::new(WholeGpus), ask(4, 1, 600)),
        Some((1, vec![0]))
    );
    assert_eq!(
        choice(Box::new(BestFit), ask(4, 1, 1_000)),
        Some((1, vec![0]))
    );
    assert_eq!(
        choice(Box::new(BestFit), ask(17, 1, 1_000)),
        Some((0, vec![0]))
    );
    assert_eq!(choice(Box::new(Random::new(1)), ask(65, 0, 0)), None);
}

#[derive(Clone, Debug)]
struct Step {
    request: Request,
    gives_back: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let share = prop::sample::select(vec![100u16, 250, 460, 810]);
    let asks = prop_oneof![
        (1u32..5, share).prop_map(|(cpu, milli)| ask(cpu, 1, milli)),
        (1u32..9, 1u16..4).prop_map(|(cpu, gpus)| ask(cpu, gpus, 1_000)),
        (1u32..9).prop_map(|cpu| ask(cpu, 0, 0)),
    ];
    (asks, any::<Option<bool>>(), prop::bool::weighted(0.2)).prop_map(
        |(request, model, gives_back)| {
            let request = model.map_or(request, |m| only(u8::from(m), request));
            Step {
                request,
                gives_back,
            }
        },
    )
}

proptest! {
    /// A board that has seen all the changes chooses as a new one over the same nodes, what it
    /// chooses fits, and giving everything back restores the fleet.
    #[test]
    fn a_board_is_its_nodes(steps in prop::collection::vec(step(), 1..60)) {
        let nodes = vec![node(16, 0, &[1_000; 4]), node(32, 1, &[1_000; 2]), node(8, 0, &[1_000])];
        let fleet = fleet(nodes, steps.iter().map(|s| s.request).collect());
        for make in [
            (|| Box::new(BestFit) as Box<dyn Policy>) as fn() -> Box<dyn Policy>,
            || Box::new(WholeGpus),
            || Box::new(Fgd::default()),
        ] {
            let board = |nodes: &[Node]| {
                let mut policy = make();
                policy.expect(&fleet.mix());
                Board::new(nodes.to_vec(), policy)
            };
            let mut used = board(&fleet.nodes);
            let mut placed: Vec<Placement> = Vec::new();
            for step in &steps {
                let now = used.nodes().to_vec();
                let chosen = used.choose(&step.request);
                prop_assert_eq!(&chosen, &board(&now).choose(&step.request));
                if let Some(chosen) = chosen {
                    prop_assert!(now[chosen.node].fits(&chosen.held));
                    prop_assert_eq!(chosen.gpus.len(), usize::from(step.request.gpus));
                    used.take(&chosen);
                    placed.push(chosen);
                } else {
                    // Refused only where nothing fits.
                    let held = make().reserved(&step.request);
                    prop_assert!(!now.iter().any(|n| n.fits(&held)));
                }
                if step.gives_back && !placed.is_empty() {
                    used.give_back(&placed.swap_remove(0));
                }
            }
            placed.iter().for_each(|p| used.give_back(p));
            prop_assert_eq!(used.nodes(), &fleet.nodes[..]);
        }
    }
}
