//! The value space of one GPU: a board's states, as far as the bids can tell them apart.

use super::kind::Part;
use cleave_model::units::GPU;
use std::{collections::BTreeMap, sync::Arc};

/// A state of one GPU in a board's [`Cells`].
pub type Cell = u16;

/// What pricing and packing need to know of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// Memory of one GPU that shares are cut from, in MiB.
    pub memory_mib: u32,
    /// The states of a GPU that is cut into instances; the first is "no instance". Empty where
    /// the board can't be cut. `next` only leads to later layouts.
    pub layouts: Arc<[Layout]>,
}

/// One state of a GPU that is cut into instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The memory units under live instances, one bit each.
    pub occupied: u16,
    /// What can be added: (profile, start, the layout after).
    pub next: Vec<(u16, u8, u16)>,
    /// Its place among the layouts in the order of how much they keep open; greater keeps more.
    pub keeps: u16,
}

/// A step from one cell to a lesser one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Index in [`Cells::parts`] of what is placed, or [`Move::NOTHING`].
    pub item: u16,
    /// The cell after.
    pub next: Cell,
}

impl Move {
    /// The item of a step that places nothing: room is given up.
    pub const NOTHING: u16 = u16::MAX;
}

/// The states ("cells") of one GPU and the steps between them.
///
/// Cells are numbered so that every step goes to a lower number: first the levels of free share
/// of an uncut GPU, then the layouts, last the free GPU. A level is a sum of share sizes, since
/// room between two sums is worth no more than the lower one; where the sums are too many, the
/// levels are an even grid. Layouts with equal futures are one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// The distinct parts that kinds take of this board.
    pub parts: Vec<Part>,
    /// The steps out of each cell.
    pub moves: Vec<Vec<Move>>,
    /// Sizes of the shares among the parts.
    sizes: Vec<u32>,
    /// The sums of them.
    levels: Vec<u32>,
    layouts: Vec<Cell>,
}

/// More sums of share sizes than this are replaced by a grid of as many steps.
const MAX_LEVELS: usize = 200;

impl Cells {
    /// The cells of `board` for kinds that take `parts` of it (sorted, distinct); those of other
    /// boards, in `known`, may spare work.
    pub fn new<'a>(
        board: &Board,
        parts: Vec<Part>,
        mut known: impl Iterator<Item = &'a Cells>,
    ) -> Cells {
        let sizes: Vec<u32> = parts
            .iter()
            .filter_map(|part| share_units(board, *part))
            .collect();
        let levels = known
            .find(|have| have.sizes == sizes)
            .map_or_else(|| levels(&sizes), |have| have.levels.clone());
        let mut moves: Vec<Vec<Move>> = Vec::with_capacity(levels.len() + board.layouts.len() + 1);
        let mut cells = Cells {
            sizes,
            levels,
            ..Cells::default()
        };
        for level in 0..cells.levels.len() {
            let mut out: Vec<Move> = Vec::new();
            if level > 0 {
                out.push(Move {
                    item: Move::NOTHING,
                    next: level as Cell - 1,
                });
            }
            for (item, part) in parts.iter().enumerate() {
                let Some(units) = share_units(board, *part) else {
                    continue;
                };
                if let Some(next) = cells.level_after(level, units) {
                    out.push(Move {
                        item: item as u16,
                        next,
                    });
                }
            }
            moves.push(out);
        }
        cells.layouts = merge_layouts(board, &parts, &mut moves);
        let mut free = vec![Move {
            item: Move::NOTHING,
            next: cells.levels.len() as Cell - 1,
        }];
        if let Some(empty) = cells.layouts.first() {
            free.push(Move {
                item: Move::NOTHING,
                next: *empty,
            });
        }
        if let Ok(item) = parts.binary_search(&Part::Whole) {
            free.push(Move {
                item: item as u16,
                next: 0,
            });
        }
        moves.push(free);
        Cells {
            parts,
            moves,
            ..cells
        }
    }

    /// The cell of a GPU that nobody uses.
    pub fn free(&self) -> Cell {
        self.moves.len() as Cell - 1
    }

    /// The cell of an uncut GPU with this much left for shares.
    pub fn shared(&self, board: &Board, units: u32, memory_mib: u32) -> Cell {
        let memory = match board.memory_mib {
            0 => GPU,
            all => (u64::from(memory_mib) * u64::from(GPU) / u64::from(all)) as u32,
        };
        self.level(units.min(memory))
    }

    /// The cell of a cut GPU.
    pub fn cut(&self, layout: u16) -> Cell {
        self.layouts[usize::from(layout)]
    }

    /// Whether an item is a share of an uncut GPU.
    pub fn is_share(&self, item: usize) -> bool {
        matches!(self.parts[item], Part::Share { .. })
    }

    /// Whether a GPU in this cell has room for `part`.
    pub fn takes(&self, cell: Cell, part: Part) -> bool {
        let item = self.parts.binary_search(&part);
        let moves = &self.moves[usize::from(cell)];
        item.is_ok_and(|item| moves.iter().any(|step| usize::from(step.item) == item))
    }

    /// The highest level that is no more than `units`.
    fn level(&self, units: u32) -> Cell {
        self.levels.partition_point(|level| *level <= units) as Cell - 1
    }

    /// The level left when `units` are taken of a level, if it has as much.
    fn level_after(&self, level: usize, units: u32) -> Option<Cell> {
        Some(self.level(self.levels[level].checked_sub(units)?))
    }
}

/// The greater of a share's two fractions in GPU units, rounded up.
fn share_units(board: &Board, part: Part) -> Option<u32> {
    let Part::Share {
        units, memory_mib, ..
    } = part
    else {
        return None;
    };
    let memory = match board.memory_mib {
        0 => 0,
        all => (u64::from(memory_mib) * u64::from(GPU)).div_ceil(u64::from(all)) as u32,
    };
    Some(units.max(memory))
}

/// All sums of `sizes` up to one GPU, in ascending order, or an even grid if they are too many.
fn levels(sizes: &[u32]) -> Vec<u32> {
    let mut sums = vec![0u32];
    for size in sizes.iter().filter(|size| **size > 0) {
        let mut at = 0;
        while at < sums.len() && sums.len() <= MAX_LEVELS {
            let sum = sums[at] + size;
            if sum <= GPU
                && let Err(place) = sums.binary_search(&sum)
            {
                sums.insert(place, sum);
            }
            at += 1;
        }
    }
    if sums.len() > MAX_LEVELS {
        let steps = MAX_LEVELS as u32;
        sums = (0..=steps).map(|step| GPU / steps * step).collect();
    }
    sums
}

/// Numbers the layouts so that those with equal futures share a cell, appends their steps to
/// `moves` and returns the cell of each layout.
fn merge_layouts(board: &Board, parts: &[Part], moves: &mut Vec<Vec<Move>>) -> Vec<Cell> {
    let mut cells = vec![0; board.layouts.len()];
    if !parts.iter().any(|part| matches!(part, Part::Slice(_))) {
        return cells;
    }
    let mut known: BTreeMap<Vec<Move>, Cell> = BTreeMap::new();
    let item = |profile: u16| parts.binary_search(&Part::Slice(profile)).ok();
    let profiles = board.layouts.iter().flat_map(|layout| &layout.next);
    let last = profiles.map(|(profile, _, _)| *profile).max().unwrap_or(0);
    let items: Vec<Option<usize>> = (0..=last).map(item).collect();
    // Later layouts are fuller: what comes after a layout has its cell already.
    for (at, layout) in board.layouts.iter().enumerate().rev() {
        // Instances of profiles that no kind asks for are no future.
        let asked = |(profile, _, next): &(u16, u8, u16)| {
            let item = items[usize::from(*profile)]? as u16;
            let next = cells[usize::from(*next)];
            Some(Move { item, next })
        };
        let mut out: Vec<Move> = layout.next.iter().filter_map(asked).collect();
        out.sort_unstable();
        out.dedup();
        cells[at] = match known.get(&out) {
            // What is dead is level 0.
            _ if out.is_empty() => 0,
            Some(cell) => *cell,
            None => {
                let cell = moves.len() as Cell;
                moves.push(out.clone());
                known.insert(out, cell);
                cell
            }
        };
    }
    cells
}
