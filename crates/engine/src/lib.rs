//! The pure engine: one [`State`] that folds facts, and planners that choose over it.
//!
//! Values in, values out. Knows no clock, no I/O, no threads, no randomness and no hash order:
//! the same events give the same plan, byte for byte, on every platform.
//!
//! * [`state`]: facts in, views and closed intervals out. The rules that never break are
//!   checked on it.
//! * [`planner`]: a planner reads a state and returns a plan; it changes nothing.

pub mod constraints;
pub mod fit;
pub mod forms;
pub mod inventory;
pub mod pack;
pub mod planner;
pub mod price;
pub mod state;

pub use planner::Planner;
pub use state::State;
