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
const MAX_CPU_MILLI: u32 = 2_000_000;

/// Marks "no kind" and "no step" in traces.
const NONE: i32 = -1;

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

/// The best value that can be had, the CPU it uses, and the choice that starts it, per lane.
#[derive(Clone, Copy, Debug)]
struct Best {
    value: Lanes,
    cpu: Lanes,
    choice: Lanes,
}

impl Best {
    const NOTHING: Best = Best {
        value: [0; LANES],
        cpu: [0; LANES],
        choice: [NONE; LANES],
    };

    /// Takes `rest` plus `bid` where that is better than what it has; whether it was, anywhere.
    fn improve(&mut self, rest: &Best, bid: &Best, choice: i32) -> bool {
        let mut any = 0;
        for lane in 0..LANES {
            let value = rest.value[lane] + bid.value[lane];
            let cpu = rest.cpu[lane] + bid.cpu[lane];
            // All ones where better: a choice without branches, of which compilers make vectors.
            let better = -i32::from(value > self.value[lane]);
            any |= better;
            self.value[lane] ^= (self.value[lane] ^ value) & better;
            self.cpu[lane] ^= (self.cpu[lane] ^ cpu) & better;
            self.choice[lane] ^= (self.choice[lane] ^ choice) & better;
        }
        any != 0
    }
}

/// A kind's bid for one part: (kind, its CPU per part, parts it is made of).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bid {
    kind: u16,
    cpu_milli: u32,
    parts: u16,
}

/// Boards whose GPUs are worth the same: equal cells and equal bids.
#[derive(Debug)]
struct Group {
    /// A board of the group.
    board: BoardIx,
    cells: Arc<Cells>,
    /// Bids for each item of `cells.parts`.
    bids: Vec<Vec<Bid>>,
    /// Kinds that take two or more whole GPUs, by CPU.
    gangs: Vec<Bid>,
    /// Distinct `cpu_milli` of `gangs`, ascending.
    gang_cpu: Vec<u32>,
    /// Distinct sizes of `gangs`, ascending.
    gang_sizes: Vec<u16>,
    items: Vec<Best>,
    one: Vec<Best>,
    /// Best of the gangs within each step of `gang_cpu`, by [step][size].
    gang_best: Vec<Best>,
    /// Value of e free GPUs: [step][e].
    free: Vec<Best>,
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
    groups: Vec<Group>,
    group_of: Vec<u16>,
    max_gpus: usize,
    /// Kinds without GPUs by CPU, and the best price per core among those up to each.
    cpu_only: Vec<(u32, u16)>,
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
        for ix in 0..boards.len() {
            let group = Group::new(boards, ix as BoardIx, kinds, &tables.groups);
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
        &self.group(board).one[usize::from(cell)].value
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
            lanes[lane] = ((lambda * cpu) >> LAMBDA_SHIFT) + rest[lane] + free.value[lane];
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

    fn floor(&self, cpu_milli: u32) -> (i32, i32) {
        self.floors[self.cpu_only.partition_point(|(cpu, _)| *cpu <= cpu_milli)]
    }

    fn free(&self, board: BoardIx, cpu_milli: u32, free: usize) -> &Best {
        let group = self.group(board);
        let step = group.gang_cpu.partition_point(|cpu| *cpu <= cpu_milli);
        &group.free[step * (self.max_gpus + 1) + free]
    }
}

impl Group {
    /// The group of one board; its cells are those of an equal board in `known`, if any.
    fn new(boards: &[Board], board: BoardIx, kinds: &[Kind], known: &[Group]) -> Group {
        let spec = &boards[usize::from(board)];
        let bid = |kind: usize, parts: u16| Bid {
            kind: kind as u16,
            cpu_milli: kinds[kind].cpu_milli / u32::from(parts),
            parts,
        };
        let here = || {
            let kinds = kinds.iter().enumerate().filter(|(_, kind)| kind.count > 0);
            kinds.filter_map(|(at, kind)| Some((at, kind, kind.part_on(board)?)))
        };
        let is_gang = |kind: &Kind, part: Part| kind.count > 1 && part == Part::Whole;
        let mut parts: Vec<Part> = here()
            .filter(|(_, kind, part)| !is_gang(kind, *part))
            .map(|(_, _, part)| part)
            .collect();
        parts.sort_unstable();
        parts.dedup();
        let mut bids = vec![Vec::new(); parts.len()];
        let mut gangs = Vec::new();
        for (at, kind, part) in here() {
            if is_gang(kind, part) {
                gangs.push(Bid {
                    parts: kind.count,
                    ..bid(at, 1)
                });
            } else if let Ok(item) = parts.binary_search(&part) {
                bids[item].push(bid(at, kind.count));
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
            None => Arc::new(Cells::new(spec, parts)),
        };
        let (items, one) = (Vec::new(), Vec::new());
        let (gang_best, free) = (Vec::new(), Vec::new());
        Group {
            board,
            cells,
            bids,
            gangs,
            gang_cpu,
            gang_sizes,
            items,
            one,
            gang_best,
            free,
        }
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
                best.improve(
                    &Best::NOTHING,
                    &lanes_of(bid, bids, bid.parts),
                    bid.kind.into(),
                );
            }
            self.items.push(best);
        }
        self.one.clear();
        // A share that adds nothing where it just fits is never better than lesser shares.
        let mut seen = vec![false; self.items.len()];
        let mut useless = vec![false; self.items.len()];
        for moves in &self.cells.moves {
            let mut best = Best::NOTHING;
            for (choice, Move { item, next }) in moves.iter().enumerate() {
                let rest = &self.one[usize::from(*next)];
                let at = usize::from(*item);
                if *item == Move::NOTHING {
                    best.improve(rest, &Best::NOTHING, choice as i32);
                } else if !useless[at] {
                    let better = best.improve(rest, &self.items[at], choice as i32);
                    useless[at] = !seen[at] && !better && self.cells.is_share(at);
                    seen[at] = true;
                }
            }
            self.one.push(best);
        }
        self.fill_gangs(bids);
        self.fill_free(max_gpus);
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
                here[size].improve(&Best::NOTHING, &lanes_of(bid, bids, 1), bid.kind.into());
            }
        }
    }

    fn fill_free(&mut self, max_gpus: usize) {
        let single = self.one[usize::from(self.cells.free())];
        let sizes = self.gang_sizes.len();
        self.free.clear();
        for step in 0..=self.gang_cpu.len() {
            let from = self.free.len();
            self.free.push(Best::NOTHING);
            for free in 1..=max_gpus {
                let mut best = Best::NOTHING;
                best.improve(&self.free[from + free - 1], &single, NONE);
                for (size, parts) in self.gang_sizes.iter().enumerate() {
                    if usize::from(*parts) <= free {
                        let rest = &self.free[from + free - usize::from(*parts)];
                        let bid = &self.gang_best[step * sizes + size];
                        best.improve(rest, bid, size as i32);
                    }
                }
                self.free.push(best);
            }
        }
    }
}

/// w − λ·cpu of one of the `parts` of a bid, per lane.
fn lanes_of(bid: &Bid, bids: &[i64], parts: u16) -> Best {
    let value = (bids[usize::from(bid.kind)] >> (20 - VALUE_BITS)) as i32 / i32::from(parts);
    let cpu = bid.cpu_milli.min(MAX_CPU_MILLI) as i32;
    let mut best = Best {
        cpu: [cpu; LANES],
        ..Best::NOTHING
    };
    for (lane, lambda) in LAMBDA.iter().enumerate() {
        best.value[lane] = value - ((lambda * cpu) >> LAMBDA_SHIFT);
    }
    best
}

/// How often each kind would be placed if every node were filled as its value supposes.
#[derive(Debug)]
pub struct Supply<'a> {
    tables: &'a Tables,
    /// Planned placements of each kind, in 2^-16.
    pub planned: Vec<i64>,
    cells: Vec<Vec<[i64; LANES]>>,
    free: Vec<Vec<[i64; LANES]>>,
}

impl<'a> Supply<'a> {
    /// No supply yet.
    pub fn new(tables: &'a Tables, kinds: usize) -> Supply<'a> {
        let per = |len: fn(&Group) -> usize| {
            tables
                .groups
                .iter()
                .map(|group| vec![[0; LANES]; len(group)])
                .collect::<Vec<_>>()
        };
        Supply {
            tables,
            planned: vec![0; kinds],
            cells: per(|group| group.one.len()),
            free: per(|group| group.free.len()),
        }
    }

    /// Adds `count` nodes. `others` are the cells, with multiplicity, of GPUs that are not free.
    ///
    /// The node is filled as at the minimising λ; what that leaves of the CPU, or lacks, is
    /// evened out by mixing with a neighbouring λ, and what is left where work without GPUs sets
    /// the price goes to that work.
    pub fn add(
        &mut self,
        board: BoardIx,
        cpu_milli: u32,
        free: usize,
        others: &[(Cell, u16)],
        count: u32,
    ) {
        let tables = self.tables;
        let group_ix = usize::from(tables.group_of[usize::from(board)]);
        let group = &tables.groups[group_ix];
        let open = tables.free(board, cpu_milli, free);
        let mut rest = [0i32; LANES];
        let mut used = open.cpu;
        for (cell, times) in others {
            let best = &group.one[usize::from(*cell)];
            for lane in 0..LANES {
                rest[lane] += best.value[lane] * i32::from(*times);
                used[lane] += best.cpu[lane] * i32::from(*times);
            }
        }
        let lanes = tables.lanes(board, cpu_milli, free, &rest);
        let (floor, floor_kind) = tables.floor(cpu_milli);
        let mut lane = 0;
        for at in 1..LANES {
            if lanes[at] < lanes[lane] {
                lane = at;
            }
        }
        let cpu = cpu_milli.min(MAX_CPU_MILLI) as i32;
        let mut all = i64::from(count) << 16;
        let mut other = lane;
        if used[lane] > cpu {
            while other + 1 < LANES && used[other] > cpu {
                other += 1;
            }
            if used[other] > cpu {
                // The dearest λ still plans too much: fill only as many nodes as there is CPU for.
                all = all * i64::from(cpu) / i64::from(used[other]);
                lane = other;
            }
        } else if lane > 0 && LAMBDA[lane] > floor {
            other = lane - 1;
        }
        let gap = i64::from(used[other] - used[lane]);
        let share = match gap {
            0 => 0,
            _ => (all * i64::from(cpu - used[lane]) / gap).clamp(0, all),
        };
        let step = group.gang_cpu.partition_point(|cpu| *cpu <= cpu_milli);
        let open = step * (tables.max_gpus + 1) + free;
        for (lane, flow) in [(lane, all - share), (other, share)] {
            self.free[group_ix][open][lane] += flow;
            for (cell, times) in others {
                self.cells[group_ix][usize::from(*cell)][lane] += flow * i64::from(*times);
            }
        }
        let mixed = i64::from(used[lane]) * (all - share) + i64::from(used[other]) * share;
        let left = i64::from(cpu) * all - mixed;
        if floor_kind != NONE && LAMBDA[lane.min(other)] <= floor && left > 0 {
            self.plan_cpu_only(floor_kind, left);
        }
    }

    /// Adds `count` nodes without GPUs.
    pub fn add_bare(&mut self, cpu_milli: u32, count: u32) {
        let (_, kind) = self.tables.floor(cpu_milli);
        if kind != NONE {
            let cpu = cpu_milli.min(MAX_CPU_MILLI);
            self.plan_cpu_only(kind, (i64::from(cpu) * i64::from(count)) << 16);
        }
    }

    /// Gives CPU, in 2^-16 milli-cores, to a kind without GPUs.
    fn plan_cpu_only(&mut self, kind: i32, cpu_q16: i64) {
        let at = self
            .tables
            .cpu_only
            .iter()
            .position(|(_, k)| i32::from(*k) == kind)
            .unwrap_or(0);
        self.planned[kind as usize] += cpu_q16 / i64::from(self.tables.cpu_only[at].0);
    }

    /// Follows the best choices of all that was added down to nothing; returns the plan.
    pub fn finish(mut self) -> Vec<i64> {
        for (ix, group) in self.tables.groups.iter().enumerate() {
            let width = self.tables.max_gpus + 1;
            let sizes = group.gang_sizes.len();
            let single = usize::from(group.cells.free());
            for at in (0..group.free.len()).rev() {
                let (step, free) = (at / width, at % width);
                if free == 0 {
                    continue;
                }
                for lane in 0..LANES {
                    let flow = self.free[ix][at][lane];
                    if flow == 0 {
                        continue;
                    }
                    match group.free[at].choice[lane] {
                        NONE => {
                            self.cells[ix][single][lane] += flow;
                            self.free[ix][at - 1][lane] += flow;
                        }
                        size => {
                            let size = size as usize;
                            let kind = group.gang_best[step * sizes + size].choice[lane];
                            self.planned[kind as usize] += flow;
                            let parts = usize::from(group.gang_sizes[size]);
                            self.free[ix][at - parts][lane] += flow;
                        }
                    }
                }
            }
            for at in (0..group.one.len()).rev() {
                for lane in 0..LANES {
                    let flow = self.cells[ix][at][lane];
                    let choice = group.one[at].choice[lane];
                    if flow == 0 || choice == NONE {
                        continue;
                    }
                    let Move { item, next } = group.cells.moves[at][choice as usize];
                    self.cells[ix][usize::from(next)][lane] += flow;
                    if item == Move::NOTHING {
                        continue;
                    }
                    let kind = group.items[usize::from(item)].choice[lane];
                    if kind != NONE {
                        let bids = &group.bids[usize::from(item)];
                        let parts = bids
                            .iter()
                            .find(|bid| i32::from(bid.kind) == kind)
                            .map_or(1, |b| b.parts);
                        self.planned[kind as usize] += flow / i64::from(parts);
                    }
                }
            }
        }
        self.planned
    }
}
