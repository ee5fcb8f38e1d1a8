//! GPU states as numbers, what they are worth, and what a part makes of them.

use crate::price::{Board, BoardIx, Cell, Gpu, Kind, Part, Tables};
use cleave_model::{lease::Sharing, units::GPU};
use std::collections::BTreeMap;

/// Index of a state of one GPU of one board.
pub type StateIx = u32;

/// A state and what prices make of it.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub board: BoardIx,
    pub gpu: Gpu,
    pub cell: Cell,
    /// Whether it is cut and can take no more instances.
    pub full: bool,
    /// See [`States::waste`].
    pub waste: i64,
    /// A hash of the GPU's state.
    pub mark: u64,
}

/// All states seen so far.
#[derive(Debug)]
pub struct States {
    known: BTreeMap<(BoardIx, Gpu), StateIx>,
    states: Vec<State>,
    /// Per board: sizes of shares asked for, descending, with the demand for that size or more.
    sizes: Vec<Vec<(u32, i64)>>,
    /// Per board: the mix of asks.
    mix: Vec<Vec<Wanted>>,
    /// Per board and layout: how much it keeps open.
    room: Vec<Vec<i64>>,
}

/// A kind in the mix as it looks on one board; many kinds may look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    /// Taken of each GPU; more than any GPU has where the board will not do. First, so that those
    /// who want as much lie together.
    units: u32,
    cpu_milli: u32,
    count: u16,
    /// Share of the demand, 2^-16.
    share: i64,
}

/// A GPU that is taken whole.
pub const FULL: Gpu = Gpu::Shared {
    units: 0,
    memory_mib: 0,
    by: Sharing::TimeSlice,
};

/// A way to put a part on a GPU in some state.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub start: u8,
    pub after: Gpu,
    pub cell: Cell,
    /// Rise of waste.
    pub waste: i64,
    /// How many more such parts fit on this GPU after it, where that was asked.
    pub more: u16,
}

impl States {
    pub fn new(boards: &[Board]) -> States {
        States {
            known: BTreeMap::new(),
            states: Vec::new(),
            sizes: vec![Vec::new(); boards.len()],
            mix: vec![Vec::new(); boards.len()],
            room: boards.iter().map(room).collect(),
        }
    }

    pub fn gpu(&self, state: StateIx) -> Gpu {
        self.states[state as usize].gpu
    }

    pub fn get(&self, state: StateIx) -> &State {
        &self.states[state as usize]
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// The number of a state of a GPU of `board`.
    pub fn intern(
        &mut self,
        board: Option<BoardIx>,
        gpu: Gpu,
        boards: &[Board],
        tables: &Tables,
    ) -> StateIx {
        let board = board.unwrap_or(super::NO_BOARD);
        if let Some(ix) = self.known.get(&(board, gpu)) {
            return *ix;
        }
        let ix = self.states.len() as StateIx;
        let state = State {
            board,
            gpu,
            cell: cell(board, gpu, boards, tables),
            full: match gpu {
                Gpu::Cut(layout) => {
                    let board = &boards[usize::from(board)];
                    board.layouts[usize::from(layout)].next.is_empty()
                }
                _ => false,
            },
            waste: self.waste(board, gpu),
            mark: mark(gpu),
        };
        self.known.insert((board, gpu), ix);
        self.states.push(state);
        ix
    }

    /// Cells and waste under new prices.
    pub fn reprice(&mut self, boards: &[Board], tables: &Tables, kinds: &[Kind], shares: &[i64]) {
        for (ix, board) in (0..).zip(boards) {
            // No node has it.
            if *board == Board::default() {
                continue;
            }
            let parts = kinds.iter().map(|kind| kind.part_on(ix));
            let looks: Vec<Look> = kinds.iter().zip(parts).zip(shares).collect();
            self.sizes[usize::from(ix)] = sizes(&looks);
            self.mix[usize::from(ix)] = wanted(&looks);
        }
        for ix in 0..self.states.len() {
            let State { board, gpu, .. } = self.states[ix];
            self.states[ix].cell = cell(board, gpu, boards, tables);
            self.states[ix].waste = self.waste(board, gpu);
        }
    }

    /// How badly what is left of a GPU suits the demand; decides between places of equal loss.
    ///
    /// Where shares are: what is left times the share of the demand that it is too small for
    /// (FGD's fragmentation). Where instances are: a GPU that was fuller before goes first, then
    /// the layout that keeps most open, by the order of the board's layouts.
    pub fn waste(&self, board: BoardIx, gpu: Gpu) -> i64 {
        let board = usize::from(board);
        match gpu {
            Gpu::Free => -self.room[board].first().copied().unwrap_or(0),
            Gpu::Cut(layout) => -self.room[board][usize::from(layout)],
            Gpu::Shared { units, .. } => {
                let larger = self.sizes[board].partition_point(|(size, _)| *size > units);
                let demand = if larger == 0 {
                    0
                } else {
                    self.sizes[board][larger - 1].1
                };
                i64::from(units) * (demand >> 16)
            }
        }
    }

    /// How much of what a node has left the mix can't use (FGD's fragmentation), in GPU units
    /// times 2^-16: by a kind that does not fit all of it, by others the GPUs too small for them.
    pub fn fragments(&self, board: BoardIx, cpu_milli: u32, gaps: &[u32]) -> i64 {
        let total: i64 = gaps.iter().map(|gap| i64::from(*gap)).sum();
        let (mut units, mut count, mut room) = (0, gaps.len() as u16, total);
        let of = |kind: &Wanted| {
            if units != kind.units {
                units = kind.units;
                let fitting = gaps.iter().filter(|gap| **gap >= units);
                (count, room) = (0, 0);
                fitting.for_each(|gap| (count, room) = (count + 1, room + i64::from(*gap)));
            }
            let fits = kind.cpu_milli <= cpu_milli && count >= kind.count && kind.count > 0;
            kind.share * if fits { total - room } else { total }
        };
        self.mix[usize::from(board)].iter().map(of).sum()
    }

    /// How much worse a GPU is for it to become `after`; adds up over the parts of an ask.
    fn rise(&self, spec: &Board, (board, before): (BoardIx, Gpu), after: Gpu) -> i64 {
        let free = |layout: u16| spec.layouts[usize::from(layout)].occupied.count_zeros();
        match (before, after) {
            (Gpu::Cut(layout), Gpu::Cut(_)) => {
                (i64::from(free(layout)) << 40) + self.waste(board, after)
            }
            (_, Gpu::Cut(_)) => (i64::from(free(0)) << 40) + self.waste(board, after),
            _ => self.waste(board, after) - self.waste(board, before),
        }
    }

    /// All ways to put `part` on a GPU of `board` in the state `gpu`. `many` if further such
    /// parts may follow on the same GPU.
    pub fn steps(
        &self,
        (board, gpu): (BoardIx, Gpu),
        part: Part,
        many: bool,
        boards: &[Board],
        tables: &Tables,
    ) -> Vec<Step> {
        let spec = &boards[usize::from(board)];
        let step = |start, after| Step {
            start,
            after,
            cell: cell(board, after, boards, tables),
            waste: self.rise(spec, (board, gpu), after),
            more: match (after, part) {
                (Gpu::Cut(layout), Part::Slice(profile)) if many => more(spec, layout, profile),
                _ => 0,
            },
        };
        match (part, gpu) {
            (Part::Whole, Gpu::Free) => vec![step(0, FULL)],
            (
                Part::Share {
                    units,
                    memory_mib,
                    by,
                },
                Gpu::Free | Gpu::Shared { .. },
            ) => {
                let (have, have_mib) = match gpu {
                    Gpu::Shared { by: other, .. } if other != by => return Vec::new(),
                    Gpu::Shared {
                        units, memory_mib, ..
                    } => (units, memory_mib),
                    _ => (GPU, spec.memory_mib),
                };
                let left = have
                    .checked_sub(units)
                    .zip(have_mib.checked_sub(memory_mib));
                let after = left.map(|(units, memory_mib)| Gpu::Shared {
                    units,
                    memory_mib,
                    by,
                });
                after.map(|after| step(0, after)).into_iter().collect()
            }
            (Part::Slice(profile), Gpu::Free | Gpu::Cut(_)) => {
                let layout = if let Gpu::Cut(layout) = gpu {
                    layout
                } else {
                    0
                };
                let starts = starts(spec, layout, profile);
                starts
                    .map(|(start, after)| step(start, Gpu::Cut(after)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

fn mark(gpu: Gpu) -> u64 {
    match gpu {
        Gpu::Free => hash(&[0]),
        Gpu::Shared {
            units,
            memory_mib,
            by,
        } => hash(&[1, by as u64, units.into(), memory_mib.into()]),
        Gpu::Cut(layout) => hash(&[2, layout.into()]),
    }
}

/// Words in order, each folded in by the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0, |hash: u64, word| {
        let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A kind with its part on some board and its share of the demand, 2^-32.
type Look<'a> = ((&'a Kind, Option<Part>), &'a i64);

/// The sizes of shares asked for, descending, with the demand for that size or more.
fn sizes(looks: &[Look]) -> Vec<(u32, i64)> {
    let size = |((_, part), share): &Look| match part {
        Some(Part::Whole) => Some((GPU, **share)),
        Some(Part::Share { units, .. }) => Some((*units, **share)),
        _ => None,
    };
    let mut sizes: Vec<(u32, i64)> = looks.iter().filter_map(size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (_, share) in sizes.iter_mut() {
        sum += *share;
        *share = sum;
    }
    sizes
}

/// The mix as it looks on one board. Slices are left out: shares can't use what they leave.
fn wanted(looks: &[Look]) -> Vec<Wanted> {
    let mut mix: Vec<Wanted> = Vec::new();
    for ((kind, part), share) in looks {
        let units = match part {
            Some(Part::Slice(_)) => continue,
            Some(Part::Share { units, .. }) => *units,
            Some(Part::Whole) => GPU,
            None => u32::MAX,
        };
        let never = units == u32::MAX;
        mix.push(Wanted {
            cpu_milli: if never { 0 } else { kind.cpu_milli },
            count: if never { 0 } else { kind.count },
            units,
            share: **share >> 16,
        });
    }
    mix.sort_unstable();
    mix.dedup_by(|next, kept| {
        let same =
            (next.cpu_milli, next.count, next.units) == (kept.cpu_milli, kept.count, kept.units);
        kept.share += if same { next.share } else { 0 };
        same
    });
    mix
}

/// Where an instance of `profile` can be added to a layout: (start, layout after).
fn starts(board: &Board, layout: u16, profile: u16) -> impl Iterator<Item = (u8, u16)> + '_ {
    let layout = board.layouts.get(usize::from(layout)).into_iter();
    let next = layout.flat_map(|layout| &layout.next);
    let here = next.filter(move |(p, _, _)| *p == profile);
    here.map(|(_, start, after)| (*start, *after))
}

/// The most instances of `profile` that can be added to a layout.
fn more(board: &Board, layout: u16, profile: u16) -> u16 {
    let starts = starts(board, layout, profile);
    starts
        .map(|(_, after)| 1 + more(board, after, profile))
        .max()
        .unwrap_or(0)
}

/// The cell of a GPU's state.
pub fn cell(board: BoardIx, gpu: Gpu, boards: &[Board], tables: &Tables) -> Cell {
    let cells = tables.cells(board);
    match gpu {
        Gpu::Free => cells.free(),
        Gpu::Shared {
            units, memory_mib, ..
        } => cells.shared(&boards[usize::from(board)], units, memory_mib),
        Gpu::Cut(layout) => cells.cut(layout),
    }
}

/// How much each layout keeps open.
fn room(board: &Board) -> Vec<i64> {
    board
        .layouts
        .iter()
        .map(|layout| i64::from(layout.keeps))
        .collect()
}
