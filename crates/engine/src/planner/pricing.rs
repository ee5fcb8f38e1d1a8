//! What pricing is told of a state, and the refinement asked of it.

use super::by_price::view;
use crate::{
    forms::{Form, Way},
    inventory::{NodeBooks, weight},
    price::{self, Board, Layout, Rule, Shape},
    state::State,
};
use cleave_model::{
    ask::Ask,
    board::{BoardId, Catalogue, LayoutId},
    prices::{Demand, Kind, Part, Prices},
};
use std::collections::BTreeMap;

/// Steps of the first refinement where the mix is known beforehand.
const FIRST_STEPS: u32 = 1000;
/// Steps of each later one.
const STEPS: u32 = 8;
/// Steps of each refinement while the mix is still being learned.
const LEARNING_STEPS: u32 = 40;
/// How many arrivals that lasts.
const LEARNING: u64 = 500;
/// A mix that is learned begins as this many arrivals, spread over all kinds seen.
const PRIOR_ARRIVALS: u64 = 50;

/// After how many arrivals to refine again: as room runs out, and often while the mix is young.
pub fn pause(state: &State) -> u64 {
    let mean_weight = state.mean_weight();
    let room = mean_weight.map_or(0, |mean| price::pause(mean, state.gpu_count()));
    let young = (state.arrivals() / 10).max(10);
    if state.knows_mix() {
        room
    } else {
        room.min(young)
    }
}

/// Everything that a refinement needs: a small plain value that may go to another thread.
#[derive(Clone, Debug)]
pub struct Question {
    boards: Vec<Board>,
    demands: Vec<Demand>,
    shapes: Vec<Shape>,
    prices: Prices,
    steps: u32,
}

impl Question {
    /// What would be asked of this state now.
    pub fn of(state: &State) -> Self {
        let prices = state
            .prices()
            .map(|prices| (**prices).clone())
            .unwrap_or_default();
        Self {
            boards: boards(state),
            demands: demands(state, &prices),
            shapes: shapes(state),
            steps: match (state.knows_mix(), prices.steps) {
                (true, 0) => FIRST_STEPS,
                (false, _) if state.arrivals() < LEARNING => LEARNING_STEPS,
                _ => STEPS,
            },
            prices,
        }
    }

    /// What gives every ask its weight as its bid.
    pub(super) fn nominal(state: &State) -> Self {
        Self {
            steps: 0,
            ..Self::of(state)
        }
    }

    /// How many states of nodes pricing tells apart.
    pub fn node_states(&self) -> usize {
        self.shapes.len()
    }

    /// Refined prices. Equal questions have equal answers on every platform.
    pub fn answer(&self) -> Prices {
        let rule = Rule::default();
        price::refine(
            &self.boards,
            &self.demands,
            &self.shapes,
            &self.prices,
            self.steps,
            &rule,
        )
    }
}

/// The boards by number; those of no node stay blank, for nothing is priced on them.
pub(super) fn boards(state: &State) -> Vec<Board> {
    let board = |(id, present): (BoardId, bool)| match present {
        true => state.priced_board(id).clone(),
        false => Board::default(),
    };
    let ids = state.boards().ids();
    ids.zip(present(state)).map(board).collect()
}

/// A board of the catalogue as pricing sees it.
pub(crate) fn board(catalogue: &Catalogue, id: BoardId) -> Board {
    let board = catalogue.board(id);
    let layouts = catalogue.layouts(id);
    let cut = |layout: LayoutId| Layout {
        occupied: layouts.instances(layout).iter().fold(0, |mask, instance| {
            let size = board.at(instance.profile).size;
            mask | (((1_u32 << size) - 1) << instance.start) as u16
        }),
        next: board
            .indices()
            .flat_map(|profile| {
                let starts = layouts.starts(layout, profile).iter();
                starts.map(move |&(start, after)| (u16::from(profile.0), start, after.0))
            })
            .collect(),
        keeps: (layouts.len() - 1 - layouts.rank(layout)) as u16,
    };
    let can_be_cut = !board.profiles.is_empty();
    Board {
        memory_mib: board.memory_mib,
        layouts: layouts.ids().filter(|_| can_be_cut).map(cut).collect(),
    }
}

/// Of each board, by number, whether any node has it.
fn present(state: &State) -> Vec<bool> {
    let mut present = vec![false; state.boards().ids().len()];
    for gpu in state.nodes().flat_map(|(_, books)| &books.gpus) {
        if let Some(present) = present.get_mut(usize::from(gpu.board.0)) {
            *present = true;
        }
    }
    present
}

/// An ask served in one way, as pricing tells asks apart.
pub(super) fn kind(state: &State, ask: &Ask, way: &Way) -> Kind {
    let catalogue = state.boards();
    let part = |form: Form| match form {
        Form::Whole => Part::Whole,
        Form::Instance(profile) => Part::Slice(u16::from(profile.0)),
        Form::Share(share) => Part::Share {
            units: share.compute,
            memory_mib: share.memory_mib,
            by: share.by,
        },
    };
    let units = way
        .on
        .iter()
        .map(|&(board, form)| u64::from(weight(&form.slice(0, 0), catalogue.board(board))));
    let count = way.on.len().max(1) as u64;
    Kind {
        cpu_milli: u32::try_from(ask.cpu_milli).unwrap_or(u32::MAX),
        count: ask
            .gpus
            .as_ref()
            .map_or(0, |gpus| gpus.count.min(u32::from(u16::MAX)) as u16),
        units: (units.sum::<u64>() / count) as u32,
        on: way
            .on
            .iter()
            .map(|&(board, form)| (board.0, part(form)))
            .collect(),
    }
}

/// The expected mix in kinds: those priced before in their order, then new ones in the order of
/// their contents. An ask that may be served in several ways counts as its first.
fn demands(state: &State, prices: &Prices) -> Vec<Demand> {
    let present = present(state);
    let mut weights: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut count = |ask: &Ask, ways: &[Way], weight: u64| {
        let way = match &ask.gpus {
            None => Some(Way { on: Vec::new() }),
            Some(_) => {
                let here = |way: &Way| {
                    let on = way.on.iter().copied();
                    let on = on.filter(|(board, _)| present[usize::from(board.0)]);
                    Way { on: on.collect() }
                };
                ways.iter().map(here).find(|way| !way.on.is_empty())
            }
        };
        if let Some(way) = way {
            *weights.entry(kind(state, ask, &way)).or_default() += weight;
        }
    };
    if state.knows_mix() {
        for (ask, weight, ways) in state.expected() {
            count(ask, ways, weight);
        }
    } else {
        for (ix, ask, arrived) in state.asks() {
            count(ask, state.ways(ix).unwrap_or_default(), arrived);
        }
    }
    let mut demands = prices.demands.clone();
    for demand in &mut demands {
        demand.weight = weights.remove(&demand.kind).unwrap_or(0);
    }
    demands.extend(
        weights
            .into_iter()
            .map(|(kind, weight)| Demand { kind, weight }),
    );
    if !state.knows_mix() {
        let kinds = demands.len() as u64;
        for demand in &mut demands {
            demand.weight = demand.weight * kinds + PRIOR_ARRIVALS;
        }
    }
    demands
}

/// The open nodes in groups of equal ones, in a fixed order.
fn shapes(state: &State) -> Vec<Shape> {
    let mut counts: BTreeMap<Shape, u32> = BTreeMap::new();
    for (_, books) in state.nodes().filter(|(_, books)| books.is_open()) {
        *counts.entry(shape(state, books)).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(shape, count)| Shape { count, ..shape })
        .collect()
}

fn shape(state: &State, books: &NodeBooks) -> Shape {
    let board = books.gpus.first().map(|gpu| gpu.board);
    let usable = books
        .gpus
        .iter()
        .filter(|gpu| !gpu.sick && Some(gpu.board) == board);
    let mut gpus: Vec<_> = usable
        .filter_map(|gpu| view(&gpu.used, state.boards().board(gpu.board).memory_mib))
        .collect();
    gpus.sort_unstable();
    Shape {
        board: board.map(|board| board.0),
        cpu_milli: u32::try_from(books.cpu_milli).unwrap_or(u32::MAX),
        gpus,
        count: 0,
    }
}
