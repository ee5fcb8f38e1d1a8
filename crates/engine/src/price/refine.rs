//! Finding the bids: multiplicative weights on the supply that the bids themselves would plan.

use super::cells::{Board, Cell};
use super::fixed::{ONE_Q30, exp_q30, noise_q16, sqrt};
use super::kind::{BoardIx, Demand, FLOOR, Iterate, Kind, Part, Prices, nominal};
use super::supply::Supply;
use super::tables::{Gpu, Tables};
use serde::{Deserialize, Serialize};

/// Nodes of equal state, as far as pricing goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// The board of the GPUs; `None` for nodes without.
    pub board: Option<BoardIx>,
    /// CPU left in milli-cores.
    pub cpu_milli: u32,
    /// The state of each usable GPU.
    pub gpus: Vec<Gpu>,
    /// How many such nodes.
    pub count: u32,
}

/// The constants of [`refine`]. One set for all clusters; a parameter for experiments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Step length: `max(eta_least, eta_first · 50/(50 + step))`, 2^-30.
    pub eta_first: i64,
    /// See `eta_first`.
    pub eta_least: i64,
    /// Safety stock of single parts in standard deviations, 2^-16.
    pub stock_q16: i64,
    /// Safety stock of gangs in standard deviations, 2^-16.
    pub gang_stock_q16: i64,
    /// Bids stay within this many times the weight of the ask.
    pub cap: i64,
    /// Spread of the noise on the bids that supply is planned with, 2^-16.
    pub noise_q16: i64,
    /// The running average of supply takes 1 of this many parts of the newest.
    pub supply_window: i64,
    /// The same for the averaged bids.
    pub bid_window: i64,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            eta_first: ONE_Q30 / 50,
            eta_least: ONE_Q30 / 400,
            stock_q16: 1 << 16,
            gang_stock_q16: 2 << 16,
            cap: 6,
            noise_q16: 6554,
            supply_window: 20,
            bid_window: 10,
        }
    }
}

/// Makes `steps` steps from `prices`, with whose kinds `demands` begins, towards bids at which
/// every kind is supplied in proportion to its demand.
///
/// A step plans the supply S that noisy bids lead to (`Supply`), averages it over steps, and
/// with θ = Σ w·S / Σ w·p moves every bid by
/// `w ← w · exp(η · clip(1 − S / (θp + z√(θp)), −100, 1))`,
/// then scales all so that Σ p·w is the mean weight of an ask. Pure: equal arguments give equal
/// results on every platform.
pub fn refine(
    boards: &[Board],
    demands: &[Demand],
    shapes: &[Shape],
    prices: &Prices,
    steps: u32,
    rule: &Rule,
) -> Prices {
    let mut prices = Prices {
        demands: demands.to_vec(),
        ..prices.clone()
    };
    for demand in &demands[prices.iterates.len()..] {
        let bid = nominal(&demand.kind);
        prices.iterates.push(Iterate {
            bid,
            average: bid,
            planned: -1,
        });
    }
    let kinds: Vec<Kind> = demands.iter().map(|demand| demand.kind.clone()).collect();
    let max_gpus = shapes
        .iter()
        .map(|shape| shape.gpus.len())
        .max()
        .unwrap_or(0);
    let mut tables = Tables::new(boards, &kinds, max_gpus);
    let nodes = group_shapes(boards, &tables, shapes);
    let shares = shares(demands, |kind| {
        nodes.iter().any(|node| node.fits(&tables, kind))
    });
    let mut supply = Supply::new(&tables, kinds.len());
    for _ in 0..steps {
        let bids: Vec<i64> = (0u32..)
            .zip(&prices.iterates)
            .map(|(k, i)| {
                let noise = (rule.noise_q16 * noise_q16(prices.steps, k)) >> 16;
                i.bid + ((i128::from(i.bid) * i128::from(noise)) >> 16) as i64
            })
            .collect();
        tables.fill(&bids);
        for node in &nodes {
            let (cpu, count) = (node.cpu_milli, node.count);
            match node.board {
                Some(board) => supply.add(&tables, board, (cpu, node.free), &node.others, count),
                None => supply.add_bare(&tables, cpu, count),
            }
        }
        let planned = supply.finish(&tables);
        step(&mut prices, &kinds, &shares, &planned, rule);
    }
    prices
}

/// One step of the bids, given the planned supply.
fn step(prices: &mut Prices, kinds: &[Kind], shares: &[i64], planned: &[i64], rule: &Rule) {
    prices.steps += 1;
    let (mut worth, mut want) = (0i128, 0i128);
    for ((iterate, new), share) in prices.iterates.iter_mut().zip(planned).zip(shares) {
        if iterate.planned < 0 {
            iterate.planned = *new;
        }
        iterate.planned += (new - iterate.planned) / rule.supply_window;
        worth += i128::from(iterate.bid) * i128::from(iterate.planned);
        want += i128::from(iterate.bid) * i128::from(*share);
    }
    let theta = if want > 0 { (worth << 32) / want } else { 0 };
    if theta > 0 {
        let eta = rule
            .eta_least
            .max(rule.eta_first * 50 / (49 + i64::from(prices.steps)));
        let all = prices.iterates.iter_mut().zip(kinds).zip(shares);
        for ((iterate, kind), share) in all.filter(|(_, share)| **share > 0) {
            let fair = (theta * i128::from(*share)) >> 32;
            let stock = if kind.count > 1 {
                rule.gang_stock_q16
            } else {
                rule.stock_q16
            };
            let need = fair + ((sqrt(fair << 16) * i128::from(stock)) >> 16);
            let miss = miss(iterate.planned, need);
            let factor = exp_q30(((eta * miss) >> 16).clamp(-ONE_Q30, ONE_Q30));
            iterate.bid = clamp(kind, scale(iterate.bid, i128::from(factor), 30), rule);
        }
        let (mut have, mut mean) = (0i128, 0i128);
        for ((iterate, kind), share) in prices.iterates.iter().zip(kinds).zip(shares) {
            have += i128::from(iterate.bid) * i128::from(*share);
            mean += if kind.count > 0 {
                i128::from(nominal(kind))
            } else {
                0
            } * i128::from(*share);
        }
        if have > 0 && mean > 0 {
            let factor = (mean << 30) / have;
            let all = prices.iterates.iter_mut().zip(kinds).zip(shares);
            for ((iterate, kind), _) in all.filter(|(_, share)| **share > 0) {
                iterate.bid = clamp(kind, scale(iterate.bid, factor, 30), rule);
            }
        }
    }
    for iterate in &mut prices.iterates {
        iterate.average += (iterate.bid - iterate.average) / rule.bid_window;
    }
}

/// Share of each kind among those that fit somewhere, 2^-32; 0 for others. What fits nowhere has
/// no say in what the rest is worth.
fn shares(demands: &[Demand], fits: impl Fn(&Kind) -> bool) -> Vec<i64> {
    let weight = |demand: &Demand| match demand.weight > 0 && fits(&demand.kind) {
        true => u128::from(demand.weight),
        false => 0,
    };
    let weights: Vec<u128> = demands.iter().map(weight).collect();
    let total: u128 = weights.iter().sum();
    weights
        .iter()
        .map(|weight| ((weight << 32) / total.max(1)) as i64)
        .collect()
}

/// clip(1 − planned / need, −100, 1), 2^-16. Below it is not clipped to −1, since what is planned
/// seldom is then planned far too often, and to forget that would leave its price too high.
fn miss(planned: i64, need: i128) -> i64 {
    let ratio = (i128::from(planned) << 16) / need.max(1);
    ((1 << 16) - ratio).clamp(-100 << 16, 1 << 16) as i64
}

fn scale(bid: i64, factor: i128, bits: u32) -> i64 {
    ((i128::from(bid) * factor) >> bits) as i64
}

fn clamp(kind: &Kind, bid: i64, rule: &Rule) -> i64 {
    let nominal = nominal(kind);
    match kind.count {
        0 => bid.clamp(nominal / 100, nominal * 8),
        _ => bid.clamp(nominal / FLOOR, nominal * rule.cap),
    }
}

/// A [`Shape`] in cells.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    board: Option<BoardIx>,
    cpu_milli: u32,
    free: usize,
    others: Vec<(Cell, u16)>,
    count: u32,
}

impl Node {
    /// Whether one ask of `kind` fits, as far as pricing can tell.
    fn fits(&self, tables: &Tables, kind: &Kind) -> bool {
        if kind.cpu_milli > self.cpu_milli {
            return false;
        }
        if kind.count == 0 {
            return true;
        }
        let Some((board, part)) = self.board.and_then(|b| Some((b, kind.part_on(b)?))) else {
            return false;
        };
        match part {
            Part::Whole => self.free >= usize::from(kind.count),
            part => {
                let open = |cell: &Cell| tables.cells(board).takes(*cell, part);
                self.free > 0 || self.others.iter().any(|(cell, _)| open(cell))
            }
        }
    }
}

fn group_shapes(boards: &[Board], tables: &Tables, shapes: &[Shape]) -> Vec<Node> {
    let node = |shape: &Shape| {
        let mut node = Node {
            board: shape.board,
            cpu_milli: shape.cpu_milli,
            free: 0,
            others: Vec::new(),
            count: shape.count,
        };
        let Some(board) = shape.board else {
            return node;
        };
        let cells = tables.cells(board);
        let mut others: Vec<Cell> = Vec::new();
        for gpu in &shape.gpus {
            match *gpu {
                Gpu::Free => node.free += 1,
                Gpu::Shared {
                    units, memory_mib, ..
                } => {
                    others.push(cells.shared(&boards[usize::from(board)], units, memory_mib));
                }
                Gpu::Cut(layout) => others.push(cells.cut(layout)),
            }
        }
        others.sort_unstable();
        for cell in others.into_iter().filter(|cell| *cell > 0) {
            match node.others.last_mut() {
                Some((last, times)) if *last == cell => *times += 1,
                _ => node.others.push((cell, 1)),
            }
        }
        node
    };
    let mut nodes: Vec<Node> = shapes.iter().map(node).collect();
    nodes.sort_unstable();
    nodes.dedup_by(|next, node| {
        let same = (next.board, next.cpu_milli, next.free, &next.others)
            == (node.board, node.cpu_milli, node.free, &node.others);
        if same {
            node.count += next.count;
        }
        same
    });
    nodes
}
