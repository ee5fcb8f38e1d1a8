//! Values against brute force, planned supply against value, refinement against its promises.

use super::*;
use cleave_model::{lease::Sharing, units::GPU};
use proptest::prelude::*;

fn share(milli: u32) -> Part {
    Part::Share {
        units: milli * (GPU / 1000),
        memory_mib: 0,
        by: Sharing::TimeSlice,
    }
}

fn kind(cpu_milli: u32, count: u16, part: Part, boards: &[BoardIx]) -> Kind {
    let units = match part {
        Part::Share { units, .. } => units,
        _ => GPU,
    };
    Kind {
        cpu_milli,
        count,
        units: if count == 0 { 0 } else { units },
        on: boards.iter().map(|board| (*board, part)).collect(),
    }
}

fn boards() -> Vec<Board> {
    // Layouts of a board with two halves: profile 0 is a half, profile 1 the whole.
    let layout = |occupied, next: &[(u16, u8, u16)]| Layout {
        occupied,
        next: next.to_vec(),
        keeps: 0,
    };
    let halves = vec![
        layout(0b00, &[(0, 0, 1), (0, 1, 2), (1, 0, 3)]),
        layout(0b01, &[(0, 1, 3)]),
        layout(0b10, &[(0, 0, 3)]),
        layout(0b11, &[]),
    ];
    vec![
        Board::default(),
        Board {
            memory_mib: 0,
            layouts: halves.into(),
        },
    ]
}

fn kinds() -> Vec<Kind> {
    let slice = |profile, units, cpu| Kind {
        units,
        ..kind(cpu, 1, Part::Slice(profile), &[1])
    };
    vec![
        kind(2000, 1, share(190), &[0, 1]),
        kind(500, 1, share(310), &[0]),
        kind(6000, 1, share(450), &[0, 1]),
        kind(4000, 1, Part::Whole, &[0, 1]),
        kind(9000, 2, Part::Whole, &[0]),
        kind(20_000, 3, Part::Whole, &[0, 1]),
        slice(0, GPU / 2, 1000),
        slice(1, GPU, 1000),
        kind(1000, 0, Part::Whole, &[]),
        kind(5000, 0, Part::Whole, &[]),
    ]
}

fn bids() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(0i64..3000 << 20, kinds().len()).prop_map(|mut bids| {
        bids[8] /= 40;
        bids[9] /= 40;
        bids
    })
}

/// The most that single parts can bid for one GPU at each λ, by trying all orders.
fn brute(bids: &[i64], board: BoardIx, gpu: Gpu, lambda: i32) -> i32 {
    let boards = boards();
    let mut best = 0;
    for (kind, bid) in kinds().iter().zip(bids) {
        let Some(part) = kind.part_on(board).filter(|_| kind.count == 1) else {
            continue;
        };
        let by = Sharing::TimeSlice;
        let shared = |units, memory_mib| Gpu::Shared {
            units,
            memory_mib,
            by,
        };
        let after: Vec<Gpu> = match (part, gpu) {
            (Part::Whole, Gpu::Free) => vec![shared(0, 0)],
            (Part::Share { units, .. }, Gpu::Free) => vec![shared(GPU - units, 0)],
            (Part::Share { units, .. }, Gpu::Shared { units: have, .. }) if have >= units => {
                vec![shared(have - units, 0)]
            }
            (Part::Slice(profile), Gpu::Free | Gpu::Cut(_)) => {
                let layout = if let Gpu::Cut(layout) = gpu {
                    layout
                } else {
                    0
                };
                let next = boards[usize::from(board)].layouts.get(usize::from(layout));
                let next = next.into_iter().flat_map(|layout| &layout.next);
                let next = next.filter(|(p, _, _)| *p == profile);
                next.map(|(_, _, after)| Gpu::Cut(*after)).collect()
            }
            _ => Vec::new(),
        };
        let cpu = (i64::from(lambda) * i64::from(kind.cpu_milli)) >> 4;
        let value = ((bid >> (20 - VALUE_BITS)) - cpu) as i32;
        for after in after.into_iter().filter(|_| value > 0) {
            best = best.max(value + brute(bids, board, after, lambda));
        }
    }
    best
}

fn cell(tables: &Tables, board: BoardIx, gpu: Gpu) -> Cell {
    let cells = tables.cells(board);
    match gpu {
        Gpu::Free => cells.free(),
        Gpu::Shared {
            units, memory_mib, ..
        } => cells.shared(&boards()[usize::from(board)], units, memory_mib),
        Gpu::Cut(layout) => cells.cut(layout),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_gpu_is_worth_the_best_that_fits(bids in bids(), milli in 0u32..=1000, lane in 0..LANES) {
        let mut tables = Tables::new(&boards(), &kinds(), 4);
        tables.fill(&bids);
        let units = milli * (GPU / 1000);
        let shared = Gpu::Shared { units, memory_mib: 0, by: Sharing::TimeSlice };
        let states = [(0, Gpu::Free), (0, shared), (1, Gpu::Free), (1, shared)];
        for (board, gpu) in states.into_iter().chain((0..4).map(|at| (1, Gpu::Cut(at)))) {
            let value = tables.cell(board, cell(&tables, board, gpu))[lane];
            prop_assert_eq!(value, brute(&bids, board, gpu, tables::LAMBDA[lane]));
        }
    }

    #[test]
    fn more_is_never_worth_less(
        bids in bids(), cpu in 0u32..60_000, more in 0u32..20_000, free in 0usize..4,
        milli in 0u32..1000, more_milli in 0u32..1000,
    ) {
        let mut tables = Tables::new(&boards(), &kinds(), 4);
        tables.fill(&bids);
        let by = Sharing::TimeSlice;
        let gpu = |milli: u32| {
            let units = milli.min(999) * (GPU / 1000);
            Gpu::Shared { units, memory_mib: 0, by }
        };
        for board in 0..2 {
            let rest = |gpu| *tables.cell(board, cell(&tables, board, gpu));
            let (less, more_room) = (rest(gpu(milli)), rest(gpu(milli + more_milli)));
            let value = tables.node(board, cpu, free, &less);
            prop_assert!(value >= 0);
            prop_assert!(tables.node(board, cpu + more, free, &less) >= value);
            prop_assert!(tables.node(board, cpu, free + 1, &less) >= value);
            prop_assert!(tables.node(board, cpu, free, &more_room) >= value);
            prop_assert!(tables.node(board, cpu, free + 1, &[0; LANES]) >= value);
            prop_assert!(tables.bare(cpu + more) >= tables.bare(cpu));
        }
    }

    /// What the plan places is worth what the nodes are, as far as the grid of λ allows, and uses
    /// no more CPU than there is.
    ///
    /// Between neighbours λ < μ of the grid a mix of their plans uses the CPU c exactly. All that
    /// is in it bids at least λ per core, so that it earns E ≥ λc, and the value exceeds E by at
    /// most (μ − λ)c: E ≥ λ/μ of the value, or the value less μc where λ = 0. Nodes whose CPU is
    /// scarcer than the dearest λ can express are left out.
    #[test]
    fn the_plan_earns_the_value(
        bids in bids(),
        nodes in prop::collection::vec((0u16..2, 1u32..96, 0usize..5, 0u32..1000), 1..8),
    ) {
        let kinds = kinds();
        let mut tables = Tables::new(&boards(), &kinds, 4);
        tables.fill(&bids);
        let mut supply = supply::Supply::new(&tables, kinds.len());
        let (mut value, mut cpu) = (0f64, 0f64);
        for (board, cores, free, milli) in nodes {
            let units = milli * (GPU / 1000);
            let shared = Gpu::Shared { units, memory_mib: 0, by: Sharing::TimeSlice };
            let other = cell(&tables, board, shared);
            let rest = tables.cell(board, other);
            let node = tables.node(board, cores * 1000, free, rest);
            if node < tables.lanes(board, cores * 1000, free, rest)[LANES - 1] {
                supply.add(&tables, board, (cores * 1000, free), &[(other, 1)], 3);
                value += 3.0 * f64::from(node);
                cpu += 3000.0 * f64::from(cores);
            }
        }
        let planned = supply.finish(&tables);
        let sum = |of: &dyn Fn(usize) -> f64| {
            planned.iter().enumerate().map(|(k, n)| of(k) * *n as f64 / 65536.0).sum::<f64>()
        };
        let worth = sum(&|k| bids[k] as f64 / f64::from(1 << (20 - VALUE_BITS)));
        // The price of work without GPUs is rounded down to a sixteenth.
        let rounded = cpu / 16.0;
        prop_assert!(worth <= value * 1.001 + rounded + 1e4, "{} of {}", worth, value);
        let steps = tables::LAMBDA[1..].windows(2).map(|two| f64::from(two[0]) / f64::from(two[1]));
        let least = steps.fold(1.0, f64::min);
        let first = f64::from(tables::LAMBDA[1]) / 16.0 * cpu;
        prop_assert!(worth >= (value - first) * least - 1e4, "{} of {}", worth, value);
        prop_assert!(sum(&|k| f64::from(kinds[k].cpu_milli)) <= cpu * 1.001 + 1.0);
    }

    #[test]
    fn refinement_is_a_bounded_function(
        weights in prop::collection::vec(0u64..50, kinds().len()),
        nodes in prop::collection::vec(
            (
                prop::option::of(0u16..2),
                prop_oneof![0u32..96_000, Just(u32::MAX)],
                0usize..5,
                1u32..40,
            ),
            0..6,
        ),
        cut in 0u32..40,
    ) {
        let demands: Vec<Demand> = kinds().into_iter().zip(weights)
            .map(|(kind, weight)| Demand { kind, weight }).collect();
        let shapes: Vec<Shape> = nodes.into_iter().map(|(board, cpu_milli, free, count)| Shape {
            board, cpu_milli, count,
            gpus: vec![Gpu::Free; if board.is_some() { free } else { 0 }],
        }).collect();
        let steps = |from: &Prices, steps| {
            refine(&boards(), &demands, &shapes, from, steps, &Rule::default())
        };
        let whole = steps(&Prices::default(), 40);
        prop_assert_eq!(&whole, &steps(&steps(&Prices::default(), cut), 40 - cut));
        prop_assert_eq!(whole.steps, 40);
        let text = serde_json::to_string(&whole).unwrap();
        prop_assert_eq!(&whole, &serde_json::from_str::<Prices>(&text).unwrap());
        for (demand, iterate) in demands.iter().zip(&whole.iterates) {
            let nominal = nominal(&demand.kind);
            prop_assert!((nominal / 100..=nominal * 8).contains(&iterate.bid));
            prop_assert!((nominal / 100..=nominal * 8).contains(&iterate.average));
        }
    }
}

/// About how many more asks of the mix fit: θ = Σ w·S / Σ w·p.
fn room(prices: &Prices) -> u64 {
    let (mut worth, mut want) = (0i128, 0i128);
    for (iterate, share) in prices.iterates.iter().zip(prices.shares()) {
        worth += i128::from(iterate.bid) * i128::from(iterate.planned.max(0));
        want += i128::from(iterate.bid) * i128::from(share);
    }
    if want > 0 {
        ((worth << 16) / want) as u64
    } else {
        0
    }
}

#[test]
fn what_is_scarce_is_dear() {
    // Few boards of sort 1, which half of the asks insist on; plenty of sort 0.
    let only = |board| kind(2000, 1, Part::Whole, &[board]);
    let any = kind(2000, 1, Part::Whole, &[0, 1]);
    let demands: Vec<Demand> = [only(0), only(1), any]
        .into_iter()
        .map(|kind| Demand { kind, weight: 10 })
        .collect();
    let shape = |board, count| Shape {
        board: Some(board),
        cpu_milli: 64_000,
        gpus: vec![Gpu::Free; 4],
        count,
    };
    let shapes = [shape(0, 100), shape(1, 10)];
    let prices = Prices::default();
    let prices = refine(
        &boards(),
        &demands,
        &shapes,
        &prices,
        1000,
        &Rule::default(),
    );
    let kinds: Vec<Kind> = demands.iter().map(|demand| demand.kind.clone()).collect();
    let mut tables = Tables::new(&boards(), &kinds, 4);
    tables.fill(&super::bids(&prices));
    let value = |board| tables.node(board, 64_000, 4, &[0; LANES]);
    assert!(value(1) > value(0) * 3, "{} {}", value(1), value(0));
    // Sort 1 has 40 GPUs for a third of the asks.
    assert!((100..160).contains(&room(&prices)), "{}", room(&prices));
}
