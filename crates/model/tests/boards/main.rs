//! Boards: facts, layouts, and both against an exhaustive search written another way.
mod facts;
mod joint;
mod layouts;

use cleave_model::board::{Board, Catalogue, Instance, Profile, ProfileIx};
use std::collections::{BTreeMap, BTreeSet};

fn board(name: &str) -> Board {
    let boards = Catalogue::builtin();
    Board::clone(boards.board(boards.find(name).unwrap()))
}

fn cut_boards() -> Vec<Board> {
    let boards = Catalogue::builtin();
    let all = boards.ids().map(|id| Board::clone(boards.board(id)));
    all.filter(|b| !b.profiles.is_empty()).collect()
}

fn plain(p: &Profile) -> bool {
    p.parsed().suffix.is_empty()
}

/// A set of instances is legal if it breaks no rule, each looked at by itself.
fn legal(board: &Board, set: &[Instance]) -> bool {
    let units =
        |i: &Instance| -> BTreeSet<u8> { (i.start..i.start + board.at(i.profile).size).collect() };
    let apart = set.iter().enumerate().all(|(n, a)| {
        let taken = units(a);
        set[..n].iter().all(|b| taken.is_disjoint(&units(b)))
    });
    let counted = board
        .indices()
        .all(|ix| set.iter().filter(|i| i.profile == ix).count() <= usize::from(board.at(ix).max));
    let engines = |kind: fn(&Board, &Instance) -> u8| -> u32 {
        set.iter().map(|i| u32::from(kind(board, i))).sum()
    };
    apart
        && counted
        && engines(|b, i| b.at(i.profile).engines.decoders) <= board.engines.decoders.into()
        && engines(|b, i| b.at(i.profile).engines.encoders) <= board.engines.encoders.into()
        && engines(|b, i| b.at(i.profile).engines.jpegs) <= board.engines.jpegs.into()
        && engines(|b, i| b.at(i.profile).engines.flows) <= board.engines.flows.into()
}

/// All legal sets: every placement is taken or left.
fn all_legal(board: &Board) -> BTreeSet<Vec<Instance>> {
    let mut sets = vec![vec![]];
    for ix in board.indices() {
        for &start in &board.at(ix).starts {
            let taken = sets.iter().map(|set: &Vec<Instance>| {
                let mut more = set.clone();
                more.push(Instance { start, profile: ix });
                more
            });
            let taken: Vec<_> = taken.filter(|set| legal(board, set)).collect();
            sets.extend(taken);
        }
    }
    sets.into_iter()
        .map(|mut set| {
            set.sort();
            set
        })
        .collect()
}

fn multiset(instances: &[Instance]) -> Vec<(ProfileIx, u8)> {
    let mut counts = BTreeMap::new();
    for i in instances {
        *counts.entry(i.profile).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
