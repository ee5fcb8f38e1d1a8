//! What one GPU and one node are worth under given bids.

use super::cells::{Board, Cell, Cells, Move};
use super::kind::{BoardIx, Kind, Part};
use cleave_model::lease::Sharing;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Points of the grid of CPU prices.
pub const LANES: usize = 20;

/// One number for each CPU price of the grid.
pub type Lanes = [i32; LANES];

/// Values are in 2^-VALUE_BITS milli-GPU.
pub const VALUE_BITS: u32 = 8;

/// λ times milli-cores, shifted down by this, is a value.
const LAMBDA_SHIFT: u32 = 4;

/// The CPU price λ of each lane: 0, then from 1 milli-GPU per core upwards in steps of 35 %.
/// CPU-heavy mixes want the low end, mixes of shares a fine grid at the high end.
pub const LAMBDA: Lanes = {
    let mut grid = [0; LANES];
    let mut lambda_q8 = 4 << 8;
    let mut lane = 1;
    while lane < LANES {
        grid[lane] = (lambda_q8 + 128) >> 8;
        lambda_q8 = lambda_q8 * 135 / 100;
        lane += 1;
    }
    grid
};

/// Above this, more CPU on one node is worth nothing (keeps λ·cpu within 32 bits).
pub(super) const MAX_CPU_MILLI: u32 = 2_000_000;

/// Marks "no kind" and "no choice".
pub(super) const NONE: i32 = -1;

/// The state of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Gpu {
    /// Nobody uses it and it can be used in any way.
    Free,
    /// Shares are on it; this much is left.
    Shared {
        /// Compute left, in GPU units.
        units: u32,
        /// Memory left in MiB.
        memory_mib: u32,
        /// How the shares live together.
        by: Sharing,
    },
    /// It is cut into instances: index in [`Board::layouts`].
    Cut(u16),
}

/// The best bid, the CPU it uses, and the kind that makes it, per lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub(super) value: Lanes,
    pub(super) cpu: Lanes,
    pub(super) kind: Lanes,
}

impl Best {
    const NOTHING: Best = Best {
        value: [0; LANES],
        cpu: [0; LANES],
        kind: [NONE; LANES],
    };

    /// Takes a bid for one of `parts` parts where that is better than what it has.
    fn improve(&mut self, bid: &Bid, bids: &[i64], parts: u16) {
        let cpu = bid.cpu_milli.min(MAX_CPU_MILLI) as i32;
        let price = (bids[usize::from(bid.kind)] >> (20 - VALUE_BITS)) as i32 / i32::from(parts);
        for (lane, lambda) in LAMBDA.iter().enumerate() {
            let value = price - ((lambda * cpu) >> LAMBDA_SHIFT);
            if value > self.value[lane] {
                self.value[lane] = value;
                self.cpu[lane] = cpu;
                self.kind[lane] = bid.kind.into();
            }
        }
    }
}

/// Raises `best` to the sum of `rest` and `more` where that is greater. Most of the time of
/// pricing goes here: values alone, in a loop of which compilers make vectors. The few choices
/// behind the values that anything asks for are found again by [`Supply`].
#[inline(always)]
fn raise(best: &mut Lanes, rest: &Lanes, more: &Lanes) {
    for lane in 0..LANES {
        best[lane] = best[lane].max(rest[lane] + more[lane]);
    }
}

/// A kind's bid for one part: (kind, its CPU per part, parts it is made of).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bid {
    pub(super) kind: u16,
    cpu_milli: u32,
    pub(super) parts: u16,
}

/// A kind by its number, and what it takes of a GPU of some board.
type Taker<'a> = (usize, &'a Kind, Part);

/// Boards whose GPUs are worth the same: equal cells and equal bids.
#[derive(Debug)]
pub(super) struct Group {
    /// A board of the group.
    board: BoardIx,
    pub(super) cells: Arc<Cells>,
    /// Bids for each item of `cells.parts`.
    pub(super) bids: Vec<Vec<Bid>>,
    /// Kinds that take two or more whole GPUs, by CPU.
    gangs: Vec<Bid>,
    /// Distinct `cpu_milli` of `gangs`, ascending.
    gang_cpu: Vec<u32>,
    /// Distinct sizes of `gangs`, ascending.
    pub(super) gang_sizes: Vec<u16>,
    /// The best bid for each item.
    pub(super) items: Vec<Best>,
    /// Items that no cell's best choice is.
    pub(super) useless: Vec<bool>,
    /// Value of a GPU by cell.
    pub(super) one: Vec<Lanes>,
    /// Best of the gangs within each step of `gang_cpu`, by [step][size].
    pub(super) gang_best: Vec<Best>,
    /// Value of e free GPUs: [step][e].
    pub(super) free: Vec<Lanes>,
}

/// The values of all cells of all boards under one set of bids.
///
/// With λ the price of CPU, one GPU in cell c is worth
/// `K(c, λ) = max over steps c → c' of K(c', λ) + max over kinds (w − λ·cpu)`,
/// e free GPUs `F(e, λ) = max(K(free, λ) + F(e−1, λ), max over gangs (w − λ·cpu + F(e−n, λ)))`,
/// where only gangs count whose CPU the node still has, and a node
/// `V = min over λ of max(λ, lc)·cpu + Σ K + F`,
/// where lc is the best price per core that work without GPUs bids. More of anything is never
/// worth less.
#[derive(Debug)]
pub struct Tables {
    pub(super) groups: Vec<Group>,
    pub(super) group_of: Vec<u16>,
    pub(super) max_gpus: usize,
    /// Kinds without GPUs by CPU, and the best price per core among those up to each.
    pub(super) cpu_only: Vec<(u32, u16)>,
    floors: Vec<(i32, i32)>,
}

impl Tables {
    /// Lays out the cells and bids of `kinds` over `boards`, for nodes of up to `max_gpus` GPUs.
    /// All values are zero until [`Tables::fill`].
    pub fn new(boards: &[Board], kinds: &[Kind], max_gpus: usize) -> Tables {
        let mut tables = Tables {
            groups: Vec::new(),
            group_of: Vec::new(),
            max_gpus,
            cpu_only: Vec::new(),
            floors: Vec::new(),
        };
        let mut takers: Vec<Vec<Taker>> = vec![Vec::new(); boards.len()];
        for (ix, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.count > 0) {
            for (board, part) in &kind.on {
                if let Some(takers) = takers.get_mut(usize::from(*board)) {
                    takers.push((ix, kind, *part));
                }
            }
        }
        for (ix, takers) in takers.iter().enumerate() {
            let group = Group::new(boards, ix as BoardIx, takers, &tables.groups);
            let have = tables
                .groups
                .iter()
                .position(|have| have.worth_the_same(&group));
            tables
                .group_of
                .push(have.unwrap_or(tables.groups.len()) as u16);
            if have.is_none() {
                tables.groups.push(group);
            }
        }
        let without = kinds.iter().enumerate().filter(|(_, kind)| kind.count == 0);
        tables.cpu_only = without
            .map(|(ix, kind)| (kind.cpu_milli, ix as u16))
            .collect();
        tables.cpu_only.retain(|(cpu, _)| *cpu > 0);
        tables.cpu_only.sort_unstable();
        tables.fill(&vec![0; kinds.len()]);
        tables
    }

    /// Computes all values under `bids`, one for each kind, in 2^-20 milli-GPU.
    pub fn fill(&mut self, bids: &[i64]) {
        let mut floor = (0, NONE);
        self.floors.clear();
        self.floors.push(floor);
        for (cpu, kind) in &self.cpu_only {
            let price = (bids[usize::from(*kind)] >> 8) / i64::from(*cpu);
            if price as i32 > floor.0 {
                floor = (price as i32, i32::from(*kind));
            }
            self.floors.push(floor);
        }
        for group in &mut self.groups {
            group.fill(bids, self.max_gpus);
        }
    }

    /// The cells of a board's GPUs.
    pub fn cells(&self, board: BoardIx) -> &Cells {
        &self.group(board).cells
    }

    /// K(c, λ) for all λ.
    pub fn cell(&self, board: BoardIx, cell: Cell) -> &Lanes {
        &self.group(board).one[usize::from(cell)]
    }

    /// The value V of a node with `cpu_milli` left and `free` free GPUs, whose other GPUs are
    /// worth `rest` together.
    pub fn node(&self, board: BoardIx, cpu_milli: u32, free: usize, rest: &Lanes) -> i32 {
        let lanes = self.lanes(board, cpu_milli, free, rest);
        lanes.iter().copied().min().unwrap_or(0)
    }

    /// The terms of which V is the least, per λ.
    pub fn lanes(&self, board: BoardIx, cpu_milli: u32, free: usize, rest: &Lanes) -> Lanes {
        let cpu = cpu_milli.min(MAX_CPU_MILLI) as i32;
        let floor = self.floor(cpu_milli).0;
        let free = self.free(board, cpu_milli, free);
        let mut lanes = [0; LANES];
        for lane in 0..LANES {
            let lambda = LAMBDA[lane].max(floor);
            lanes[lane] = ((lambda * cpu) >> LAMBDA_SHIFT) + rest[lane] + free[lane];
        }
        lanes
    }

    /// The value of a node without GPUs.
    pub fn bare(&self, cpu_milli: u32) -> i32 {
        (self.floor(cpu_milli).0 * cpu_milli.min(MAX_CPU_MILLI) as i32) >> LAMBDA_SHIFT
    }

    fn group(&self, board: BoardIx) -> &Group {
        &self.groups[usize::from(self.group_of[usize::from(board)])]
    }

    pub(super) fn floor(&self, cpu_milli: u32) -> (i32, i32) {
        self.floors[self.cpu_only.partition_point(|(cpu, _)| *cpu <= cpu_milli)]
    }

    fn free(&self, board: BoardIx, cpu_milli: u32, free: usize) -> &Lanes {
        let group = self.group(board);
        &group.free[group.step(cpu_milli) * (self.max_gpus + 1) + free]
    }
}

impl Group {
    /// The group of one board; its cells are those of an equal board in `known`, if any.
    fn new(boards: &[Board], board: BoardIx, takers: &[Taker], known: &[Group]) -> Group {
        let spec = &boards[usize::from(board)];
        let bid = |ix: usize, kind: &Kind, parts: u16| Bid {
            kind: ix as u16,
            cpu_milli: kind.cpu_milli / u32::from(parts),
            parts,
        };
        let is_gang = |kind: &Kind, part: Part| kind.count > 1 && part == Part::Whole;
        let singles = takers
            .iter()
            .filter(|(_, kind, part)| !is_gang(kind, *part));
        let mut parts: Vec<Part> = singles.map(|(_, _, part)| *part).collect();
        parts.sort_unstable();
        parts.dedup();
        let mut bids = vec![Vec::new(); parts.len()];
        let mut gangs = Vec::new();
        for &(ix, kind, part) in takers {
            if is_gang(kind, part) {
                gangs.push(Bid {
                    parts: kind.count,
                    ..bid(ix, kind, 1)
                });
            } else if let Ok(item) = parts.binary_search(&part) {
                bids[item].push(bid(ix, kind, kind.count));
            }
        }
        gangs.sort_by_key(|bid| (bid.cpu_milli, bid.kind));
        let mut gang_cpu: Vec<u32> = gangs.iter().map(|bid| bid.cpu_milli).collect();
        gang_cpu.dedup();
        let mut gang_sizes: Vec<u16> = gangs.iter().map(|bid| bid.parts).collect();
        gang_sizes.sort_unstable();
        gang_sizes.dedup();
        let equal = known
            .iter()
            .find(|have| have.cells.parts == parts && boards[usize::from(have.board)] == *spec);
        let cells = match equal {
            Some(have) => have.cells.clone(),
            None => {
                let known = known.iter().map(|have| &*have.cells);
                Arc::new(Cells::new(spec, parts, known))
            }
        };
        Group {
            board,
            cells,
            bids,
            gangs,
            gang_cpu,
            gang_sizes,
            items: Vec::new(),
            useless: Vec::new(),
            one: Vec::new(),
            gang_best: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The step of `gang_cpu` that a node with so much CPU left is in.
    pub(super) fn step(&self, cpu_milli: u32) -> usize {
        self.gang_cpu.partition_point(|cpu| *cpu <= cpu_milli)
    }

    fn worth_the_same(&self, other: &Group) -> bool {
        let cells = Arc::ptr_eq(&self.cells, &other.cells) || self.cells == other.cells;
        cells && self.bids == other.bids && self.gangs == other.gangs
    }

    fn fill(&mut self, bids: &[i64], max_gpus: usize) {
        self.items.clear();
        for offers in &self.bids {
            let mut best = Best::NOTHING;
            for bid in offers {
                best.improve(bid, bids, bid.parts);
            }
            self.items.push(best);
        }
        self.fill_one();
        self.fill_gangs(bids);
        self.fill_free(max_gpus);
    }

    fn fill_one(&mut self) {
        self.one.clear();
        // A share that adds nothing where it just fits is never better than lesser shares.
        let mut seen = vec![false; self.items.len()];
        self.useless.clear();
        self.useless.resize(self.items.len(), false);
        for moves in &self.cells.moves {
            let mut best = [0; LANES];
            for Move { item, next } in moves {
                let rest = &self.one[usize::from(*next)];
                let at = usize::from(*item);
                if *item == Move::NOTHING {
                    raise(&mut best, rest, &[0; LANES]);
                } else if !self.useless[at] {
                    let before = best;
                    raise(&mut best, rest, &self.items[at].value);
                    if !seen[at] {
                        seen[at] = true;
                        self.useless[at] = best == before && self.cells.is_share(at);
                    }
                }
            }
            self.one.push(best);
        }
    }

    fn fill_gangs(&mut self, bids: &[i64]) {
        let sizes = self.gang_sizes.len();
        self.gang_best.clear();
        self.gang_best
            .resize((self.gang_cpu.len() + 1) * sizes, Best::NOTHING);
        let mut gangs = self.gangs.iter().peekable();
        for step in 0..self.gang_cpu.len() {
            let (below, here) = self.gang_best.split_at_mut((step + 1) * sizes);
            here[..sizes].copy_from_slice(&below[step * sizes..]);
            while let Some(bid) = gangs.next_if(|bid| bid.cpu_milli <= self.gang_cpu[step]) {
                let size = self.gang_sizes.partition_point(|size| *size < bid.parts);
                here[size].improve(bid, bids, 1);
            }
        }
    }

    fn fill_free(&mut self, max_gpus: usize) {
        let single = self.one[usize::from(self.cells.free())];
        let sizes = self.gang_sizes.len();
        self.free.clear();
        for step in 0..=self.gang_cpu.len() {
            let from = self.free.len();
            self.free.push([0; LANES]);
            for free in 1..=max_gpus {
                let mut best = [0; LANES];
                raise(&mut best, &self.free[from + free - 1], &single);
                for (size, parts) in self.gang_sizes.iter().enumerate() {
                    if usize::from(*parts) <= free {
                        let rest = &self.free[from + free - usize::from(*parts)];
                        raise(&mut best, rest, &self.gang_best[step * sizes + size].value);
                    }
                }
                self.free.push(best);
            }
        }
    }
}
