//! What the values suppose: how often each kind would be placed.

use super::cells::{Cell, Move};
use super::kind::BoardIx;
use super::tables::{Group, LAMBDA, LANES, MAX_CPU_MILLI, NONE, Tables};

/// How often each kind would be placed if every node were filled as its value supposes.
///
/// Tables hold values only. What choice a value stands for is found where nodes come by: the
/// first one, in the order of the tables' making, that is worth as much.
#[derive(Debug)]
pub struct Supply {
    /// Planned placements of each kind, in 2^-16.
    planned: Vec<i64>,
    groups: Vec<[Flows; 2]>,
}

/// The rows of one of a group's tables: cells, or free GPUs.
#[derive(Clone, Debug)]
struct Flows {
    /// Of each row, the lanes by which anything comes.
    flowing: Vec<u32>,
    flow: Vec<[i64; LANES]>,
    /// Of each row, the lanes that are traced.
    traced: Vec<u32>,
    trace: Vec<[Trace; LANES]>,
}

/// The choice that a value stands for, and the CPU that it uses with all that follows.
#[derive(Clone, Copy, Debug, Default)]
struct Trace {
    choice: i32,
    cpu: i32,
}

/// Places of the two tables in [`Supply`].
const CELLS: usize = 0;
const FREE: usize = 1;

impl Flows {
    fn new(rows: usize) -> Flows {
        Flows {
            flowing: vec![0; rows],
            flow: vec![[0; LANES]; rows],
            traced: vec![0; rows],
            trace: vec![[Trace::default(); LANES]; rows],
        }
    }

    fn add(&mut self, row: usize, lane: usize, flow: i64) {
        self.flowing[row] |= u32::from(flow != 0) << lane;
        self.flow[row][lane] += flow;
    }

    /// Takes away one of the lanes by which something comes to a row.
    fn take(&mut self, row: usize) -> Option<(usize, i64)> {
        let lanes = self.flowing[row];
        let lane = lanes.trailing_zeros() as usize;
        self.flowing[row] &= lanes.wrapping_sub(1);
        (lanes != 0).then(|| (lane, std::mem::take(&mut self.flow[row][lane])))
    }

    fn known(&self, row: usize, lane: usize) -> Option<Trace> {
        (self.traced[row] >> lane & 1 == 1).then(|| self.trace[row][lane])
    }

    fn note(&mut self, row: usize, lane: usize, trace: Trace) -> Trace {
        self.traced[row] |= 1 << lane;
        self.trace[row][lane] = trace;
        trace
    }
}

/// The choice behind the value of a cell: a place in its list of moves.
fn trace_cell(group: &Group, flows: &mut [Flows; 2], cell: usize, lane: usize) -> Trace {
    if let Some(known) = flows[CELLS].known(cell, lane) {
        return known;
    }
    let value = group.one[cell][lane];
    let nothing = Trace {
        choice: NONE,
        cpu: 0,
    };
    let mut found = nothing;
    if value > 0 {
        for (choice, Move { item, next }) in group.cells.moves[cell].iter().enumerate() {
            let rest = group.one[usize::from(*next)][lane];
            let (more, cpu) = match group.items.get(usize::from(*item)) {
                None => (0, 0),
                Some(_) if group.useless[usize::from(*item)] => continue,
                Some(best) => (best.value[lane], best.cpu[lane]),
            };
            if rest + more == value {
                let rest = trace_cell(group, flows, usize::from(*next), lane);
                found = Trace {
                    choice: choice as i32,
                    cpu: rest.cpu + cpu,
                };
                break;
            }
        }
    }
    flows[CELLS].note(cell, lane, found)
}

/// The choice behind the value of free GPUs: a place in the list of gang sizes, or [`NONE`] where
/// one GPU is used by itself. `row` is [step][GPUs], `width` the length of a step.
fn trace_free(
    group: &Group,
    flows: &mut [Flows; 2],
    (row, width): (usize, usize),
    lane: usize,
) -> Trace {
    if let Some(known) = flows[FREE].known(row, lane) {
        return known;
    }
    let value = group.free[row][lane];
    let (step, free) = (row / width, row % width);
    let mut found = Trace {
        choice: NONE,
        cpu: 0,
    };
    if value > 0 {
        let single = usize::from(group.cells.free());
        if group.free[row - 1][lane] + group.one[single][lane] == value {
            found.cpu = trace_cell(group, flows, single, lane).cpu
                + trace_free(group, flows, (row - 1, width), lane).cpu;
        } else {
            let gangs = &group.gang_best[step * group.gang_sizes.len()..];
            for (size, (parts, best)) in group.gang_sizes.iter().zip(gangs).enumerate() {
                let parts = usize::from(*parts);
                if parts <= free && group.free[row - parts][lane] + best.value[lane] == value {
                    let rest = trace_free(group, flows, (row - parts, width), lane);
                    found = Trace {
                        choice: size as i32,
                        cpu: rest.cpu + best.cpu[lane],
                    };
                    break;
                }
            }
        }
    }
    flows[FREE].note(row, lane, found)
}

impl Supply {
    /// No supply yet, for tables of this layout.
    pub fn new(tables: &Tables, kinds: usize) -> Supply {
        let flows = |group: &Group| [group.one.len(), group.free.len()].map(Flows::new);
        Supply {
            planned: vec![0; kinds],
            groups: tables.groups.iter().map(flows).collect(),
        }
    }

    /// Adds `count` nodes. `others` are the cells, with multiplicity, of GPUs that are not free.
    ///
    /// The node is filled as at the minimising λ; what that leaves of the CPU, or lacks, is
    /// evened out by mixing with a neighbouring λ, and what is left where work without GPUs sets
    /// the price goes to that work.
    pub fn add(
        &mut self,
        tables: &Tables,
        board: BoardIx,
        (cpu_milli, free): (u32, usize),
        others: &[(Cell, u16)],
        count: u32,
    ) {
        let group_ix = usize::from(tables.group_of[usize::from(board)]);
        let group = &tables.groups[group_ix];
        let flows = &mut self.groups[group_ix];
        let width = tables.max_gpus + 1;
        let open = group.step(cpu_milli) * width + free;
        let mut rest = [0i32; LANES];
        for (cell, times) in others {
            let value = &group.one[usize::from(*cell)];
            for lane in 0..LANES {
                rest[lane] += value[lane] * i32::from(*times);
            }
        }
        let mut used = |lane: usize| {
            let open = trace_free(group, flows, (open, width), lane).cpu;
            let others = others.iter().map(|(cell, times)| {
                trace_cell(group, flows, usize::from(*cell), lane).cpu * i32::from(*times)
            });
            open + others.sum::<i32>()
        };
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
        let mut here = used(lane);
        let (mut other, mut there) = (lane, here);
        if here > cpu {
            while other + 1 < LANES && there > cpu {
                other += 1;
                there = used(other);
            }
            if there > cpu {
                // The dearest λ still plans too much: fill only as many nodes as there is CPU for.
                all = all * i64::from(cpu) / i64::from(there);
                (lane, here) = (other, there);
            }
        } else if lane > 0 && LAMBDA[lane] > floor {
            other = lane - 1;
            there = used(other);
        }
        let gap = i64::from(there - here);
        let share = match gap {
            0 => 0,
            _ => (all * i64::from(cpu - here) / gap).clamp(0, all),
        };
        for (lane, flow) in [(lane, all - share), (other, share)] {
            flows[FREE].add(open, lane, flow);
            for (cell, times) in others {
                flows[CELLS].add(usize::from(*cell), lane, flow * i64::from(*times));
            }
        }
        let mixed = i64::from(here) * (all - share) + i64::from(there) * share;
        let left = i64::from(cpu) * all - mixed;
        if floor_kind != NONE && LAMBDA[lane.min(other)] <= floor && left > 0 {
            self.plan_cpu_only(tables, floor_kind, left);
        }
    }

    /// Adds `count` nodes without GPUs.
    pub fn add_bare(&mut self, tables: &Tables, cpu_milli: u32, count: u32) {
        let (_, kind) = tables.floor(cpu_milli);
        if kind != NONE {
            let cpu = cpu_milli.min(MAX_CPU_MILLI);
            self.plan_cpu_only(tables, kind, (i64::from(cpu) * i64::from(count)) << 16);
        }
    }

    /// Gives CPU, in 2^-16 milli-cores, to a kind without GPUs.
    fn plan_cpu_only(&mut self, tables: &Tables, kind: i32, cpu_q16: i64) {
        let mut of = tables.cpu_only.iter();
        let cpu = of.find(|(_, k)| i32::from(*k) == kind).map(|(cpu, _)| *cpu);
        self.planned[kind as usize] += cpu_q16 / i64::from(cpu.unwrap_or(1));
    }

    /// Follows the best choices of all that was added down to nothing; returns the plan, and
    /// begins anew.
    pub fn finish(&mut self, tables: &Tables) -> Vec<i64> {
        let width = tables.max_gpus + 1;
        for (group, flows) in tables.groups.iter().zip(&mut self.groups) {
            let sizes = group.gang_sizes.len();
            let single = usize::from(group.cells.free());
            for row in (0..group.free.len()).rev() {
                while let Some((lane, flow)) = flows[FREE].take(row) {
                    if row % width == 0 {
                        continue;
                    }
                    match trace_free(group, flows, (row, width), lane).choice {
                        NONE => {
                            flows[CELLS].add(single, lane, flow);
                            flows[FREE].add(row - 1, lane, flow);
                        }
                        size => {
                            let best = &group.gang_best[row / width * sizes + size as usize];
                            self.planned[best.kind[lane] as usize] += flow;
                            let parts = usize::from(group.gang_sizes[size as usize]);
                            flows[FREE].add(row - parts, lane, flow);
                        }
                    }
                }
            }
            for cell in (0..group.one.len()).rev() {
                while let Some((lane, flow)) = flows[CELLS].take(cell) {
                    let choice = trace_cell(group, flows, cell, lane).choice;
                    if choice == NONE {
                        continue;
                    }
                    let Move { item, next } = group.cells.moves[cell][choice as usize];
                    flows[CELLS].add(usize::from(next), lane, flow);
                    if item == Move::NOTHING {
                        continue;
                    }
                    let kind = group.items[usize::from(item)].kind[lane];
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
            flows.iter_mut().for_each(|flows| flows.traced.fill(0));
        }
        let kinds = self.planned.len();
        std::mem::replace(&mut self.planned, vec![0; kinds])
    }
}
