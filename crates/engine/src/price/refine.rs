//! Finding the bids: multiplicative weights on the supply that the bids themselves would plan.

use super::cells::{Board, Cell};
use super::fixed::{ONE_Q30, exp_q30, noise_q16, sqrt};
use super::kind::{BoardIx, Kind};
use super::tables::{Gpu, Supply, Tables};
use serde::{Deserialize, Serialize};

/// A kind and how much of the arrivals it is expected to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// The kind.
    pub kind: Kind,
    /// Its weight among the arrivals, such as how often it was seen. Any scale.
    pub weight: u64,
}

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

/// What is remembered of one kind between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iterate {
    /// The bid that steps act on, 2^-20 milli-GPU.
    pub bid: i64,
    /// Its running average, by which work is placed, 2^-20 milli-GPU.
    pub average: i64,
    /// The running average of the planned supply, 2^-16 asks.
    pub planned: i64,
    /// Running mean of how far a single step's supply is from the need, in parts of it, 2^-16.
    pub spread: i64,
}

/// Bid prices with all that the next refinement needs. Kinds are told by their place in the
/// list of demands, which only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Steps made so far.
    pub steps: u32,
    /// One for each priced kind.
    pub iterates: Vec<Iterate>,
    /// Share of each priced kind in the arrivals, 2^-32.
    pub shares: Vec<i64>,
}

impl Prices {
    /// The bids by which work is placed, 2^-20 milli-GPU.
    pub fn bids(&self) -> Vec<i64> {
        self.iterates
            .iter()
            .map(|iterate| iterate.average)
            .collect()
    }
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
            eta_least: ONE_Q30 * 3 / 2000,
            stock_q16: 1 << 15,
            gang_stock_q16: 2 << 16,
            cap: 6,
            noise_q16: 6554,
            supply_window: 20,
            bid_window: 10,
        }
    }
}

/// Kinds without GPUs start at this bid for a core: 10 milli-GPU (2^-20 milli-GPU per
/// milli-core), and stay within a hundredth and eight times of it.
const CPU_BID: i64 = (1 << 20) / 100;

/// Makes `steps` steps from `prices` towards bids at which every kind is supplied in proportion
/// to its demand.
///
/// A step plans the supply S that noisy bids lead to ([`Supply`]), averages it over steps, and
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
    let mut prices = prices.clone();
    let total: u128 = demands.iter().map(|demand| u128::from(demand.weight)).sum();
    if total == 0 {
        return prices;
    }
    let share = |demand: &Demand| ((u128::from(demand.weight) << 32) / total) as i64;
    prices.shares = demands.iter().map(share).collect();
    for demand in &demands[prices.iterates.len()..] {
        let bid = nominal(&demand.kind);
        prices.iterates.push(Iterate {
            bid,
            average: bid,
            planned: -1,
            spread: 1 << 16,
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
    for _ in 0..steps {
        let bids: Vec<i64> = (0u32..)
            .zip(&prices.iterates)
            .map(|(k, i)| {
                let noise = rule.noise_q16 * noise_q16(prices.steps, k) >> 16;
                i.bid + (i128::from(i.bid) * i128::from(noise) >> 16) as i64
            })
            .collect();
        tables.fill(&bids);
        let mut supply = Supply::new(&tables, kinds.len());
        for node in &nodes {
            match node.board {
                Some(board) => {
                    supply.add(board, node.cpu_milli, node.free, &node.others, node.count)
                }
                None => supply.add_bare(node.cpu_milli, node.count),
            }
        }
        let planned = supply.finish();
        if crate::price::exp(4) > 0 && prices.steps % 100 == 99 {
            let mut v = 0f64;
            for node in &nodes {
                if let Some(b) = node.board {
                    let mut rest = [0; crate::price::LANES];
                    for (c, t) in &node.others {
                        for l in 0..crate::price::LANES {
                            rest[l] += tables.cell(b, *c)[l] * i32::from(*t);
                        }
                    }
                    v += f64::from(tables.node(b, node.cpu_milli, node.free, &rest))
                        * f64::from(node.count);
                }
            }
            let ws: f64 = bids
                .iter()
                .zip(&planned)
                .map(|(b, s)| *b as f64 / 4096.0 * *s as f64 / 65536.0)
                .sum();
            let cpu: f64 = kinds
                .iter()
                .zip(&planned)
                .map(|(b, s)| b.cpu_milli as f64 * *s as f64 / 65536.0)
                .sum();
            let have: f64 = nodes
                .iter()
                .map(|n| n.cpu_milli as f64 * f64::from(n.count))
                .sum();
            eprintln!("V {v:.0} wS {ws:.0} cpu {cpu:.0} of {have:.0}");
        }
        step(&mut prices, &kinds, &planned, rule);
    }
    prices
}

/// One step of the bids, given the planned supply.
fn step(prices: &mut Prices, kinds: &[Kind], planned: &[i64], rule: &Rule) {
    let first = prices.steps == 0;
    prices.steps += 1;
    let (mut worth, mut want) = (0i128, 0i128);
    for ((iterate, new), share) in prices.iterates.iter_mut().zip(planned).zip(&prices.shares) {
        if iterate.planned < 0 || first {
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
        for (((iterate, kind), share), new) in prices
            .iterates
            .iter_mut()
            .zip(kinds)
            .zip(&prices.shares)
            .zip(planned)
        {
            let fair = theta * i128::from(*share) >> 32;
            let stock = if kind.count > 1 {
                rule.gang_stock_q16
            } else {
                rule.stock_q16
            };
            let need = fair + (sqrt(fair << 16) * i128::from(stock) >> 16);
            let ratio = (i128::from(iterate.planned) << 16) / need.max(1);
            let miss = ((1 << 16) - ratio).clamp(-100 << 16, 1 << 16) as i64;
            let miss = if crate::price::exp(2) > 0 {
                let raw = ((1 << 16) - (i128::from(*new) << 16) / need.max(1))
                    .clamp(-1000 << 16, 1 << 16) as i64;
                let dev = if crate::price::exp(3) > 0 {
                    raw.abs()
                } else {
                    miss.abs()
                };
                iterate.spread += (dev - iterate.spread) / crate::price::exp(2);
                (miss << 16) / iterate.spread.max(1 << 14)
            } else {
                miss
            };
            let factor = exp_q30((eta * miss >> 16).clamp(-ONE_Q30, ONE_Q30));
            iterate.bid = clamp(kind, scale(iterate.bid, i128::from(factor), 30), rule.cap);
        }
        let (mut have, mut mean) = (0i128, 0i128);
        for ((iterate, kind), share) in prices.iterates.iter().zip(kinds).zip(&prices.shares) {
            have += i128::from(iterate.bid) * i128::from(*share);
            mean += if kind.count > 0 {
                i128::from(nominal(kind))
            } else {
                0
            } * i128::from(*share);
        }
        if have > 0 && mean > 0 {
            let factor = (mean << 30) / have;
            for (iterate, kind) in prices.iterates.iter_mut().zip(kinds) {
                iterate.bid = clamp(kind, scale(iterate.bid, factor, 30), rule.cap);
            }
        }
    }
    for iterate in &mut prices.iterates {
        iterate.average += (iterate.bid - iterate.average) / rule.bid_window;
    }
}

fn scale(bid: i64, factor: i128, bits: u32) -> i64 {
    (i128::from(bid) * factor >> bits) as i64
}

/// The bid a kind starts with: its weight.
fn nominal(kind: &Kind) -> i64 {
    match kind.count {
        0 => CPU_BID * i64::from(kind.cpu_milli),
        n => (i64::from(kind.units) * i64::from(n) << 20) / 840,
    }
}

fn clamp(kind: &Kind, bid: i64, cap: i64) -> i64 {
    let nominal = nominal(kind);
    match kind.count {
        0 => bid.clamp(nominal / 100, nominal * 8),
        _ => bid.clamp(nominal / 20, nominal * cap),
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
                Gpu::Shared { units, memory_mib } => {
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
