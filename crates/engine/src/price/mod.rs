//! Bid prices: what the remaining capacity of the cluster is worth to the work still to come.
//!
//! Every kind of ask bids a price `w`. The bids are the dual prices of the linear program
//! "maximise θ such that θ·p more of every kind still fit", where `p` is a kind's share of the
//! arrivals. They are found by multiplicative weights and averaged ([`refine`]). A node is worth
//! what the best bids could still put on it ([`Tables`]), and a placement costs the fall of that
//! worth. So a gap, a board, a core or a whole node is cheap where it is in surplus and dear
//! where it is scarce.
//!
//! All of it is integer arithmetic in a fixed order, equal to the bit on every platform.
//!
//! | quantity | unit |
//! |---|---|
//! | bid, as kept in [`Prices`] | 2^-20 milli-GPU |
//! | value, as in [`Tables`] | 2^-8 milli-GPU |
//! | price of CPU, λ | 2^-12 milli-GPU per milli-core |
//! | planned supply, demand share | 2^-16 asks, 2^-32 |

mod cells;
mod fixed;
mod kind;
mod refine;
mod supply;
mod tables;

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "compared with plain sums")]
mod tests;

pub use cells::{Board, Cell, Cells, Layout, Move};
pub use kind::{BoardIx, Demand, Iterate, Kind, Part, Prices, bids, mean_weight, nominal, pause};
pub use refine::{Rule, Shape, refine};
pub use tables::{Gpu, LANES, Lanes, Tables, VALUE_BITS};
