//! The order of classes against a full scan, trials against fresh copies, exact fit.

use super::*;
use crate::price::{Demand, Gpu, Kind, Layout, Part, Rule, refine};
use cleave_model::{lease::Sharing, units::GPU};
use proptest::prelude::*;

/// A board of four memory units: instances of one unit anywhere, of two at 0 and 2, of four at 0.
fn sliced() -> Board {
    let sizes = [(1u16, vec![0, 1, 2, 3]), (2, vec![0, 2]), (4, vec![0u8])];
    let mut sets: Vec<Vec<(u16, u8)>> = vec![Vec::new()];
    let mut layouts: Vec<Layout> = Vec::new();
    while layouts.len() < sets.len() {
        let set = sets[layouts.len()].clone();
        let mask =
            |(profile, start): (u16, u8)| ((1u16 << sizes[usize::from(profile)].0) - 1) << start;
        let occupied = set.iter().fold(0, |all, instance| all | mask(*instance));
        let mut next = Vec::new();
        for (profile, (_, starts)) in (0u16..).zip(&sizes) {
            for start in starts {
                if occupied & mask((profile, *start)) == 0 {
                    let mut after = set.clone();
                    after.push((profile, *start));
                    after.sort_unstable();
                    let known = sets.iter().position(|set| *set == after);
                    let known = known.unwrap_or_else(|| {
                        sets.push(after);
                        sets.len() - 1
                    });
                    next.push((profile, *start, known as u16));
                }
            }
        }
        layouts.push(Layout {
            occupied,
            next,
            keeps: 0,
        });
    }
    Board {
        memory_mib: 40_000,
        layouts: layouts.into(),
    }
}

fn boards() -> Vec<Board> {
    let plain = Board {
        memory_mib: 16_000,
        layouts: [].into(),
    };
    vec![plain, sliced()]
}

fn share(milli: u32, by: Sharing) -> Part {
    Part::Share {
        units: milli * (GPU / 1000),
        memory_mib: milli * 16,
        by,
    }
}

fn kind(cpu_milli: u32, count: u16, units: u32, on: &[(BoardIx, Part)]) -> Kind {
    Kind {
        cpu_milli,
        count,
        units,
        on: on.to_vec(),
    }
}

/// Kinds of every sort.
fn kinds() -> Vec<Kind> {
    let turns = Sharing::TimeSlice;
    let milli = |milli: u32| milli * (GPU / 1000);
    let either = |part| [(0, part), (1, part)];
    vec![
        kind(4000, 1, GPU, &either(Part::Whole)),
        kind(9000, 2, GPU, &either(Part::Whole)),
        kind(16_000, 4, GPU, &[(0, Part::Whole)]),
        kind(2000, 1, milli(310), &either(share(310, turns))),
        kind(1000, 1, milli(460), &either(share(460, turns))),
        kind(1000, 1, milli(460), &[(0, share(460, Sharing::Mps))]),
        kind(500, 2, milli(250), &either(share(250, turns))),
        kind(1000, 1, GPU / 4, &[(1, Part::Slice(0))]),
        kind(2000, 1, GPU / 2, &[(1, Part::Slice(1))]),
        kind(2000, 1, GPU, &[(1, Part::Slice(2))]),
        kind(3000, 3, GPU / 4, &[(1, Part::Slice(0))]),
        kind(
            3000,
            2,
            GPU / 2,
            &[(0, share(500, turns)), (1, Part::Slice(1))],
        ),
        kind(3000, 0, 0, &[]),
        kind(250, 0, 0, &[]),
    ]
}

fn demands(weights: &[u64]) -> Vec<Demand> {
    let kinds = kinds().into_iter().zip(weights);
    kinds
        .map(|(kind, weight)| Demand {
            kind,
            weight: *weight,
        })
        .collect()
}

/// A node in one of the usual sizes, some parts of it in use or out of order.
fn node() -> impl Strategy<Value = NodeView> {
    let gpu = |board: u16| {
        let shared = (0u32..1000, 0u32..16_000).prop_map(|(milli, memory_mib)| {
            Some(Gpu::Shared {
                units: milli * (GPU / 1000),
                memory_mib,
                by: Sharing::TimeSlice,
            })
        });
        let layouts = boards()[usize::from(board)].layouts.len().max(1) as u16;
        let cut = (0..layouts).prop_map(move |layout| match board {
            0 => None,
            _ => Some(Gpu::Cut(layout)),
        });
        prop_oneof![4 => Just(Some(Gpu::Free)), 1 => shared, 2 => cut]
    };
    let gpus = (0u16..3).prop_flat_map(move |board| {
        let board_of = (board < 2).then_some(board);
        let count = if board < 2 { 1..5usize } else { 0..1 };
        (
            Just(board_of),
            prop::collection::vec(gpu(board.min(1)), count),
        )
    });
    (gpus, 0u32..40, 0u64..5, 0u32..4, 0u32..3, 0u16..2).prop_map(
        |((board, gpus), cpu, memory, pods, hard, topology)| NodeView {
            hard,
            board,
            cpu_milli: cpu * 1000,
            memory_bytes: memory << 30,
            pods,
            topology,
            gpus,
        },
    )
}

fn topologies() -> Vec<Topology> {
    let pairs = Topology {
        levels: vec![vec![0b0011, 0b1100]],
    };
    vec![Topology::default(), pairs]
}

fn packed(nodes: &[(NodeIx, NodeView)], weights: &[u64]) -> Pack {
    let mut pack = Pack::new(boards(), topologies(), 4);
    for (ix, node) in nodes {
        pack.set_node(*ix, Some(node.clone()));
    }
    reprice(&mut pack, weights);
    pack
}

fn reprice(pack: &mut Pack, weights: &[u64]) {
    let shapes = pack.shapes();
    let before = Default::default();
    let prices = refine(
        &boards(),
        &demands(weights),
        &shapes,
        &before,
        30,
        &Rule::default(),
    );
    pack.set_prices(&prices);
}

fn accepts(filter: u32) -> impl Fn(NodeIx, u32) -> bool {
    move |node, hard| hard != filter && !(filter == 3 && node % 2 == 0)
}

/// All choices a pack would make now.
fn choices(pack: &mut Pack, filter: u32) -> Vec<Option<Choice>> {
    let kinds: Vec<KindIx> = kinds().iter().map(|kind| pack.kind(kind)).collect();
    let best = |kind| pack.best(kind, 1 << 30, &accepts(filter));
    kinds.into_iter().map(best).collect()
}

/// The same, node by node.
fn choices_by_scan(pack: &mut Pack, filter: u32) -> Vec<Option<Choice>> {
    let kinds: Vec<KindIx> = kinds().iter().map(|kind| pack.kind(kind)).collect();
    let best = |kind| pack.best_among(0..1000, kind, 1 << 30, &accepts(filter));
    kinds.into_iter().map(best).collect()
}

#[derive(Clone, Debug)]
enum Change {
    Place(usize, u32),
    Set(NodeIx, Option<NodeView>),
    Price(Vec<u64>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (0..kinds().len(), 0u32..5).prop_map(|(kind, filter)| Change::Place(kind, filter)),
        2 => (0u32..12, prop::option::weighted(0.8, node())).prop_map(|(ix, n)| Change::Set(ix, n)),
        1 => weights().prop_map(Change::Price),
    ]
}

fn weights() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..100, kinds().len())
}

fn make(pack: &mut Pack, change: &Change) {
    match change {
        Change::Place(kind, filter) => {
            let kind = pack.kind(&kinds()[*kind]);
            if let Some(choice) = pack.best(kind, 1 << 30, &accepts(*filter)) {
                pack.place(kind, 1 << 30, &choice);
            }
        }
        Change::Set(ix, node) => pack.set_node(*ix, node.clone()),
        Change::Price(weights) => reprice(pack, weights),
    }
}

fn numbered() -> impl Strategy<Value = Vec<(NodeIx, NodeView)>> {
    prop::collection::vec(node(), 1..12)
        .prop_map(|nodes| (0..).zip(nodes).collect::<Vec<(NodeIx, NodeView)>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_order_agrees_with_a_full_scan(
        nodes in numbered(), mix in weights(), changes in prop::collection::vec(change(), 0..20),
    ) {
        let mut pack = packed(&nodes, &mix);
        for change in &changes {
            make(&mut pack, change);
            for filter in [3, 4] {
                prop_assert_eq!(choices(&mut pack, filter), choices_by_scan(&mut pack, filter));
            }
        }
    }

    #[test]
    fn a_rollback_leaves_nothing_behind(
        nodes in numbered(), mix in weights(),
        kept in prop::collection::vec(change(), 0..6),
        tried in prop::collection::vec(change(), 0..12),
        inner in prop::collection::vec(change(), 0..6),
    ) {
        let priced = |change: &&Change| !matches!(change, Change::Price(_));
        let mut pack = packed(&nodes, &mix);
        let mut fresh = packed(&nodes, &mix);
        for change in kept.iter().filter(priced) {
            let mark = pack.mark();
            make(&mut pack, change);
            pack.keep(mark);
            make(&mut fresh, change);
        }
        let outer = pack.mark();
        tried.iter().filter(priced).for_each(|change| make(&mut pack, change));
        let mark = pack.mark();
        inner.iter().filter(priced).for_each(|change| make(&mut pack, change));
        pack.rollback(mark);
        pack.rollback(outer);
        prop_assert_eq!(pack.shapes(), fresh.shapes());
        prop_assert!((0..20).all(|ix| pack.node(ix) == fresh.node(ix)));
        prop_assert_eq!(choices(&mut pack, 3), choices(&mut fresh, 3));
    }

    #[test]
    fn the_order_of_insertion_does_not_matter(
        nodes in numbered(), mix in weights(), turn in 0usize..12,
    ) {
        let mut turned = nodes.clone();
        turned.rotate_left(turn % nodes.len());
        turned.reverse();
        let (mut one, mut other) = (packed(&nodes, &mix), packed(&turned, &mix));
        prop_assert_eq!(choices(&mut one, 4), choices(&mut other, 4));
    }

    #[test]
    fn what_fits_is_found_and_what_is_found_fits(
        nodes in numbered(), mix in weights(), filter in 0u32..5,
    ) {
        let mut pack = packed(&nodes, &mix);
        for (kind, choice) in kinds().iter().zip(choices(&mut pack, filter)) {
            let open = |ix, view: &NodeView| {
                accepts(filter)(ix, view.hard) && view.memory_bytes >= 1 << 30 && view.pods > 0
            };
            let possible = nodes.iter().any(|(ix, view)| open(*ix, view) && fits(view, kind));
            prop_assert_eq!(choice.is_some(), possible, "{:?}", kind);
            if let Some(choice) = choice {
                let view = &nodes[choice.node as usize].1;
                prop_assert!(open(choice.node, view) && fits(view, kind));
                prop_assert!(follows(view, kind, &choice), "{:?} {:?}", view, choice);
            }
        }
    }
}

/// Whether a kind fits a node at all, by trying everything.
fn fits(view: &NodeView, kind: &Kind) -> bool {
    if view.cpu_milli < kind.cpu_milli {
        return false;
    }
    if kind.count == 0 {
        return true;
    }
    let Some(part) = view.board.and_then(|board| kind.part_on(board)) else {
        return false;
    };
    let board = &boards()[usize::from(view.board.unwrap_or(0))];
    let room = |gpu: &Gpu| match (part, *gpu) {
        (Part::Slice(profile), Gpu::Cut(layout)) => most(board, layout, profile),
        (Part::Slice(profile), Gpu::Free) => most(board, 0, profile),
        (_, Gpu::Free) => 1,
        (
            Part::Share {
                units,
                memory_mib,
                by,
            },
            Gpu::Shared {
                units: have,
                memory_mib: have_mib,
                by: other,
            },
        ) => u16::from(have >= units && have_mib >= memory_mib && by == other),
        _ => 0,
    };
    view.gpus.iter().flatten().map(room).sum::<u16>() >= kind.count
}

fn most(board: &Board, layout: u16, profile: u16) -> u16 {
    let Some(layout) = board.layouts.get(usize::from(layout)) else {
        return 0;
    };
    let next = layout.next.iter().filter(|(p, _, _)| *p == profile);
    next.map(|(_, _, after)| 1 + most(board, *after, profile))
        .max()
        .unwrap_or(0)
}

/// Whether every part of a choice leads from what its GPU was to what the choice says.
fn follows(view: &NodeView, kind: &Kind, choice: &Choice) -> bool {
    let mut gpus = view.gpus.clone();
    let board = &boards()[usize::from(view.board.unwrap_or(0))];
    let part = view.board.and_then(|board| kind.part_on(board));
    let mut touched: Vec<u8> = Vec::new();
    let all = choice.parts.iter().all(|placed| {
        let before = gpus[usize::from(placed.gpu)];
        gpus[usize::from(placed.gpu)] = Some(placed.after);
        let again = touched.contains(&placed.gpu);
        touched.push(placed.gpu);
        match (part, before) {
            (Some(Part::Whole), Some(Gpu::Free)) => !again,
            (Some(Part::Share { units, .. }), Some(before)) => {
                let have = match before {
                    Gpu::Shared { units, .. } => units,
                    _ => GPU,
                };
                let left = matches!(placed.after, Gpu::Shared { units: left, .. }
                    if left + units == have);
                left && !again
            }
            (Some(Part::Slice(profile)), Some(Gpu::Free | Gpu::Cut(_))) => {
                let layout = match before {
                    Some(Gpu::Cut(layout)) => layout,
                    _ => 0,
                };
                let next = &board.layouts[usize::from(layout)].next;
                let step = |after| next.contains(&(profile, placed.start, after));
                matches!(placed.after, Gpu::Cut(after) if step(after))
            }
            _ => false,
        }
    });
    all && choice.parts.len() == usize::from(kind.count)
}

#[test]
fn gangs_take_the_tightest_set() {
    let node = |free: &[usize]| NodeView {
        hard: 0,
        board: Some(0),
        cpu_milli: 64_000,
        memory_bytes: 1 << 40,
        pods: 10,
        topology: 1,
        gpus: (0..4)
            .map(|gpu| free.contains(&gpu).then_some(Gpu::Free))
            .collect(),
    };
    let mut pack = packed(&[(0, node(&[0, 2])), (1, node(&[1, 2, 3]))], &[1; 14]);
    let pair = pack.kind(&kinds()[1]);
    let choice = pack.best(pair, 0, &|_, _| true).expect("it fits");
    assert_eq!(choice.node, 1);
    let gpus: Vec<u8> = choice.parts.iter().map(|part| part.gpu).collect();
    assert_eq!(gpus, [2, 3]);
}
