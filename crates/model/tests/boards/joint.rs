//! Best fill, room and joint placement against every pair of legal sets.
use super::{all_legal, board, multiset, plain};
use cleave_model::board::{Board, Instance, Layouts, ProfileIx};
use cleave_model::units::GPU;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What the docs of `Layouts` call better, from the sets alone; greater is better.
type Batch = Vec<(ProfileIx, u8)>;
type Value = (u32, Reverse<Vec<u8>>);

struct Brute {
    /// Every legal set with its value and best fill.
    states: Vec<(Vec<Instance>, Value, u32)>,
    /// By state: the best way to add each batch that fits.
    joint: Vec<BTreeMap<Batch, usize>>,
    room: BTreeMap<(usize, ProfileIx), u8>,
}

/// Compares every pair of legal sets: where one holds the other, the rest is a batch that fits.
fn brute(board: &Board) -> Brute {
    let sets: Vec<Vec<Instance>> = all_legal(board).into_iter().collect();
    let every: Vec<Instance> = board
        .indices()
        .flat_map(|profile| {
            board
                .at(profile)
                .starts
                .iter()
                .map(move |&start| Instance { start, profile })
        })
        .collect();
    let mask = |set: &Vec<Instance>| -> u64 {
        set.iter()
            .map(|i| 1 << every.iter().position(|e| e == i).unwrap())
            .sum()
    };
    let masks: Vec<u64> = sets.iter().map(mask).collect();
    let weight = |set: &[Instance]| -> u32 { set.iter().map(|i| board.weight(i.profile)).sum() };
    let holders = |small: usize| {
        let masks = &masks;
        (0..masks.len()).filter(move |&big| masks[small] & !masks[big] == 0)
    };
    let added = |small: usize, big: usize| -> Vec<Instance> {
        let gone = masks[big] & !masks[small];
        every
            .iter()
            .enumerate()
            .filter(|(n, _)| gone >> n & 1 == 1)
            .map(|(_, i)| *i)
            .collect()
    };
    let states: Vec<_> = (0..sets.len())
        .map(|at| {
            let (mut open, mut fill) = (0, 0);
            for big in holders(at) {
                let added = added(at, big);
                fill = fill.max(weight(&added));
                if added.len() == 1 {
                    open += weight(&added);
                }
            }
            let mut line = vec![0; 16];
            for i in &sets[at] {
                line[usize::from(i.start)] = i.profile.0 + 1;
            }
            (sets[at].clone(), (open, Reverse(line)), fill)
        })
        .collect();
    let (mut joint, mut room) = (vec![BTreeMap::new(); sets.len()], BTreeMap::new());
    for (small, ways) in joint.iter_mut().enumerate() {
        for big in holders(small) {
            let batch = multiset(&added(small, big));
            if let [(profile, count)] = batch[..] {
                let most = room.entry((small, profile)).or_insert(0);
                *most = count.max(*most);
            }
            let best = ways.entry(batch).or_insert(big);
            if states[big].1 > states[*best].1 {
                *best = big;
            }
        }
    }
    Brute {
        states,
        joint,
        room,
    }
}

/// Every batch of up to `most` instances, as sorted (profile, count).
fn batches(board: &Board, most: u8) -> Vec<Batch> {
    let mut all = vec![vec![]];
    for profile in board.indices() {
        let more: Vec<_> = all
            .iter()
            .flat_map(|batch: &Batch| {
                let left = most - batch.iter().map(|&(_, count)| count).sum::<u8>();
                (1..=left).map(move |count| [batch.as_slice(), &[(profile, count)]].concat())
            })
            .collect();
        all.extend(more);
    }
    all
}

#[test]
fn joint_placement_equals_exhaustive_search() {
    let h100 = board("H100");
    // Media variants multiply states; the narrow board keeps them beside every size.
    let media = h100.only(|p| (p.compute, p.size) != (1, 2));
    let rtx = board("RTX-PRO-6000").only(|p| p.parsed().suffix != "gfx");
    for (board, most) in [
        (h100.only(plain), 4),
        (media, 3),
        (board("A30"), 5),
        (rtx, 3),
    ] {
        let layouts = Layouts::of(&board);
        let brute = brute(&board);
        let batches = batches(&board, most);
        for (at, (set, _, fill)) in brute.states.iter().enumerate() {
            let id = layouts.find(set).unwrap();
            assert_eq!(layouts.best_fill(id), *fill);
            assert_eq!(layouts.maximal(id), *fill == 0);
            assert_eq!(layouts.used(id) + fill + layouts.stranded(id), GPU);
            for profile in board.indices() {
                let room = brute.room.get(&(at, profile)).copied().unwrap_or(0);
                assert_eq!(layouts.room(id, profile), room);
            }
            // Small batches that fit or not, and every one of any size that fits.
            for batch in batches.iter().chain(brute.joint[at].keys()) {
                let want = brute.joint[at].get(batch).map(|&big| &brute.states[big].0);
                let got = layouts.joint(id, batch);
                let placed = got.map(|to| layouts.instances(to).to_vec());
                assert_eq!(placed.as_ref(), want, "{} {set:?} + {batch:?}", board.name);
                let Some(to) = got else { continue };
                let new: Vec<Instance> = layouts.missing(id, to).collect();
                assert_eq!(multiset(&new), *batch);
                assert_eq!(layouts.missing(to, id).count(), 0);
                if let [(profile, 1)] = batch[..] {
                    assert_eq!(layouts.best_start(id, profile), Some((new[0].start, to)));
                }
            }
        }
    }
}
