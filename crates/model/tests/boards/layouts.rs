//! Which layouts there are, and what is best on well-known ones.
use super::{all_legal, board, cut_boards, legal, multiset, plain};
use cleave_model::board::{Board, Instance, LayoutId, Layouts, Profile, ProfileIx};
use cleave_model::units::GPU;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn narrow(p: &Profile) -> bool {
    plain(p) && (p.compute, p.size) != (1, 2)
}

#[test]
fn published_counts() {
    // (board, profiles, layouts, multisets, maximal layouts, maximal multisets)
    type Keep = fn(&Profile) -> bool;
    let mut rows: Vec<(Board, Keep, [usize; 4])> = vec![
        (board("A30"), plain, [26, 10, 5, 4]),
        (board("RTX-PRO-6000"), plain, [26, 10, 5, 4]),
    ];
    for b in cut_boards().into_iter().filter(|b| b.units == 8) {
        rows.push((b.clone(), narrow, [298, 38, 19, 14]));
        rows.push((b, plain, [723, 78, 78, 38]));
    }
    for (board, keep, counts) in rows {
        let layouts = Layouts::of(&board.only(keep));
        let kinds = |ids: Vec<LayoutId>| {
            let kinds: BTreeSet<_> = ids
                .iter()
                .map(|&id| multiset(layouts.instances(id)))
                .collect();
            [ids.len(), kinds.len()]
        };
        let [all, sets] = kinds(layouts.ids().collect());
        let [maximal, most] = kinds(layouts.ids().filter(|&id| layouts.maximal(id)).collect());
        assert_eq!([all, sets, maximal, most], counts, "{}", board.name);
    }
}

#[test]
fn layouts_are_all_legal_sets_and_every_answer_is_exact() {
    for board in cut_boards() {
        let layouts = Layouts::of(&board);
        let brute = all_legal(&board);
        let ours: BTreeSet<Vec<Instance>> = layouts
            .ids()
            .map(|id| layouts.instances(id).to_vec())
            .collect();
        assert_eq!(ours.len(), layouts.len());
        assert_eq!(ours, brute, "{}", board.name);
        assert!(layouts.instances(LayoutId::EMPTY).is_empty());

        for id in layouts.ids() {
            let set = layouts.instances(id);
            assert_eq!(layouts.find(set), Some(id));
            assert!(layouts.used(id) <= GPU);
            assert_eq!(
                layouts.used(id),
                set.iter().map(|i| board.weight(i.profile)).sum::<u32>()
            );
            for profile in board.indices() {
                let mut starts = BTreeSet::new();
                for start in (0..=16).chain([u8::MAX]) {
                    let one = Instance { start, profile };
                    let mut more = [set, &[one]].concat();
                    more.sort();
                    let to = layouts.add(id, profile, start);
                    let fits = board.at(profile).starts.contains(&start) && brute.contains(&more);
                    assert_eq!(to.is_some(), fits, "{} {set:?} + {one:?}", board.name);
                    assert_eq!(layouts.find(&more), to);
                    if let Some(to) = to {
                        assert_eq!(layouts.instances(to), more);
                        assert_eq!(layouts.remove(to, profile, start), Some(id));
                        assert!(to > id);
                        starts.insert(start);
                    }
                    if !set.contains(&one) {
                        assert_eq!(layouts.remove(id, profile, start), None);
                    }
                }
                let listed = layouts.starts(id, profile);
                assert_eq!(
                    listed
                        .iter()
                        .map(|&(start, _)| start)
                        .collect::<BTreeSet<_>>(),
                    starts
                );
                assert!(
                    listed
                        .windows(2)
                        .all(|two| layouts.better(two[0].1, two[1].1))
                );
                assert_eq!(layouts.fits(id, profile), !starts.is_empty());
            }
        }
    }
}

/// Adds profiles by name at their best starts; the starts taken, none where one did not fit.
fn stream(on: &Board, profiles: &[&str]) -> Vec<Option<u8>> {
    let layouts = Layouts::of(on);
    let mut id = LayoutId::EMPTY;
    let place = |name: &&str| {
        let best = layouts.best_start(id, on.profile(name).unwrap());
        best.map(|(start, to)| {
            id = to;
            start
        })
    };
    profiles.iter().map(place).collect()
}

#[test]
fn best_starts_keep_what_is_rare() {
    let a100 = board("A100-40GB");
    assert_eq!(
        stream(&a100, &["1g.5gb", "4g.20gb", "2g.10gb"]),
        [Some(6), Some(0), Some(4)]
    );
    assert_eq!(stream(&a100, &["3g.20gb", "4g.20gb"]), [Some(4), Some(0)]);
    let h100 = board("H100");
    let ones = stream(&h100, &["1g.10gb"; 8]);
    let starts = [6, 5, 4, 3, 2, 1, 0];
    assert_eq!(ones[..7], starts.map(Some));
    assert_eq!(ones[7], None);
    assert_eq!(
        stream(&h100, &["1g.10gb", "1g.10gb", "1g.10gb", "4g.40gb"])[3],
        Some(0)
    );
    assert_eq!(
        stream(&h100, &["1g.20gb"; 4]),
        [Some(6), Some(4), Some(2), Some(0)]
    );
    let rtx = board("RTX-PRO-6000");
    assert_eq!(
        stream(&rtx, &["1g.24gb", "1g.24gb", "2g.48gb"]),
        [Some(9), Some(6), Some(0)]
    );
    // All media engines in one slice leave room for slices without any.
    let all = stream(
        &rtx,
        &[
            "1g.24gb+me.all",
            "1g.24gb",
            "1g.24gb+gfx",
            "1g.24gb-me",
            "2g.48gb-me",
        ],
    );
    assert_eq!(all, [Some(9), None, None, Some(6), Some(0)]);
    // Both media profiles of an A30 want its one optical flow accelerator.
    assert_eq!(stream(&board("A30"), &["1g.6gb+me", "2g.12gb+me"])[1], None);
}

#[test]
fn scattered_slices_block_halves() {
    let h100 = board("H100");
    let layouts = Layouts::of(&h100);
    let [one, three, four] = ["1g.10gb", "3g.40gb", "4g.40gb"].map(|n| h100.profile(n).unwrap());
    let at = |start| Instance {
        start,
        profile: one,
    };
    let held = layouts.find(&[at(0), at(1), at(5)]).unwrap();
    assert!(
        !layouts.fits(held, three) && !layouts.fits(held, four),
        "5 of 8 units are free"
    );
    assert_eq!(layouts.room(held, one), 4);
    let moved = layouts.remove(held, one, 5).unwrap();
    assert!(layouts.add(moved, three, 4).is_some() && !layouts.fits(moved, four));

    // Sums (6 of 7 compute, 7 of 8 memory free) would still offer a 4g.
    let first = layouts.find(&[at(0)]).unwrap();
    assert!(!layouts.fits(first, four));
    assert_eq!(
        layouts
            .starts(first, three)
            .iter()
            .map(|s| s.0)
            .collect::<Vec<_>>(),
        [4]
    );
    assert_eq!(layouts.joint(first, &[(three, 2)]), None);
    // 1g at 6 strands the memory-only unit: half of 1/8 GPU.
    assert_eq!(layouts.stranded(layouts.find(&[at(6)]).unwrap()), GPU / 16);
    assert_eq!(layouts.stranded(layouts.find(&[at(5)]).unwrap()), 0);
    assert_eq!(layouts.find(&[at(0), at(0)]), None);
    assert_eq!(layouts.find(&[at(200)]), None);
    assert_eq!(
        layouts.find(&[Instance {
            start: 0,
            profile: ProfileIx(255)
        }]),
        None
    );
}

#[test]
fn a_board_that_cannot_be_cut_has_one_layout() {
    let layouts = Layouts::of(&board("L4"));
    assert_eq!(layouts.len(), 1);
    assert!(layouts.maximal(LayoutId::EMPTY));
    assert_eq!(layouts.stranded(LayoutId::EMPTY), 0);
    assert_eq!(layouts.joint(LayoutId::EMPTY, &[]), Some(LayoutId::EMPTY));
}

#[test]
fn splitting_and_rejoining_returns_to_the_whole() {
    let h100 = board("H100");
    let layouts = Layouts::of(&h100);
    let [one, seven] = ["1g.10gb", "7g.80gb"].map(|name| h100.profile(name).unwrap());
    let whole = layouts.joint(LayoutId::EMPTY, &[(seven, 1)]).unwrap();
    let split = layouts.joint(LayoutId::EMPTY, &[(one, 7)]).unwrap();
    assert_eq!(layouts.missing(whole, split).count(), 7);
    let mut id = split;
    for gone in layouts.missing(whole, split) {
        id = layouts.remove(id, gone.profile, gone.start).unwrap();
        assert_eq!(layouts.fits(id, seven), id == LayoutId::EMPTY);
    }
    assert_eq!(id, LayoutId::EMPTY);
    assert_eq!(
        layouts.missing(split, whole).collect::<Vec<_>>(),
        layouts.instances(whole)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any walk of additions and removals stays legal, and its end depends on what stands alone.
    #[test]
    fn walks_keep_the_rules(
        which in 0usize..11,
        steps in prop::collection::vec(any::<(u8, u8)>(), 1..60),
    ) {
        let board = &cut_boards()[which];
        let layouts = Layouts::of(board);
        let (mut id, mut held) = (LayoutId::EMPTY, Vec::<Instance>::new());
        for (kind, pick) in steps {
            if kind % 3 == 0 && !held.is_empty() {
                let gone = held.swap_remove(usize::from(pick) % held.len());
                id = layouts.remove(id, gone.profile, gone.start).unwrap();
            } else {
                let profile = ProfileIx(kind % board.profiles.len() as u8);
                let starts = layouts.starts(id, profile);
                if let Some(&(start, to)) = starts.get(usize::from(pick) % starts.len().max(1)) {
                    held.push(Instance { start, profile });
                    id = to;
                }
            }
            prop_assert!(legal(board, &held));
            prop_assert_eq!(layouts.find(&held), Some(id));
            prop_assert_eq!(layouts.instances(id).len(), held.len());
        }
    }

    /// A batch is a multiset: order and grouping do not matter.
    #[test]
    fn joint_ignores_order_and_grouping(
        which in 0usize..11,
        state in any::<u16>(),
        batch in prop::collection::vec((any::<u8>(), 0u8..3), 0..4),
        rotate in 0usize..4,
    ) {
        let board = &cut_boards()[which];
        let layouts = Layouts::of(board);
        let id = LayoutId(state % layouts.len() as u16);
        let kinds = board.profiles.len() as u8;
        let batch: Vec<_> = batch.iter().map(|&(p, count)| (ProfileIx(p % kinds), count)).collect();
        let mut singles: Vec<_> =
            batch.iter().flat_map(|&(p, count)| vec![(p, 1); usize::from(count)]).collect();
        let at = rotate.min(singles.len());
        singles.rotate_left(at);
        singles.reverse();
        prop_assert_eq!(layouts.joint(id, &batch), layouts.joint(id, &singles));
    }
}
