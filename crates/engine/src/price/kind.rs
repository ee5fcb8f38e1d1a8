//! Reading of kinds and prices. The types are kept in the model, for prices are recorded.

use cleave_model::units::GPU;

pub use cleave_model::prices::{BoardIx, Demand, Iterate, Kind, Part, Prices};

/// Bids for GPUs stay above their nominal bid divided by this.
pub const FLOOR: i64 = 20;

/// The bid to start with, 2^-20 milli-GPU: the weight of the ask, or 10 milli-GPU for a core
/// where there is no GPU.
pub fn nominal(kind: &Kind) -> i64 {
    match kind.count {
        0 => (1 << 20) / 100 * i64::from(kind.cpu_milli),
        n => ((i64::from(kind.units) * i64::from(n)) << 20) / 840,
    }
}

/// The bids by which work is placed, 2^-20 milli-GPU: the averages; for slices only what is above
/// the floor, since where slices are in surplus their shapes decide better than small bids do.
pub fn bids(prices: &Prices) -> Vec<i64> {
    let all = prices.demands.iter().zip(&prices.iterates);
    let bid = |(demand, iterate): (&Demand, &Iterate)| match demand.kind.on.first() {
        Some((_, Part::Slice(_))) => (iterate.average - nominal(&demand.kind) / FLOOR).max(0),
        _ => iterate.average,
    };
    all.map(bid).collect()
}

/// The mean weight of an ask of the mix that was priced, in GPU units, 2^-32.
pub fn mean_weight(prices: &Prices) -> i128 {
    let weight = |(demand, share): (&Demand, i64)| {
        i128::from(demand.kind.units) * i128::from(demand.kind.count) * i128::from(share)
    };
    prices.demands.iter().zip(prices.shares()).map(weight).sum()
}

/// After how many arrivals to refine again: 1/160 of the asks of the mean weight (2^-32) that
/// `gpus` GPUs hold. More often is no better; half as often costs a little when the cluster is
/// nearly full.
pub fn pause(mean_weight: i128, gpus: u64) -> u64 {
    let asks = ((i128::from(gpus) * i128::from(GPU)) << 32) / mean_weight.max(1);
    (asks / 160).clamp(10, 10_000) as u64
}
