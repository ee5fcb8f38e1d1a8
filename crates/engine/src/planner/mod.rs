//! Planners: they read a state and return a plan, and change nothing.

mod by_price;
mod duties;
mod first_fit;
pub(crate) mod pricing;
mod walk;
mod why;

pub use by_price::ByPrice;
pub use first_fit::{FirstFit, WorkingCopy};
pub use pricing::{Question, pause};
pub use walk::{Packing, Scratch, Walk};

use crate::state::State;
use cleave_model::{
    Millis,
    plan::{Budget, Plan},
};

/// Chooses over a state. The same state, `now` and budget give the same plan, whatever the
/// scratch remembers; a fresh scratch only makes it slower.
pub trait Planner {
    /// Working copies and caches, kept between plans.
    type Scratch: Default;

    /// Decides what should be done now.
    fn plan(&self, state: &State, scratch: &mut Self::Scratch, now: Millis, budget: Budget)
    -> Plan;
}
