//! A world in virtual time around the control plane: devices, work, faults, checkers.
//!
//! [`World`] feeds a [`cleave_control::Control`] with requests at given times, carries out its
//! effects, and tells what came of it as an [`Outcome`]. Its nodes are either
//!
//! * *instant*: placements and evictions come true at once. Costs a few microseconds per arrival:
//!   for traces.
//! * *modelled*: every node has real hands over modelled GPUs, with latencies, a network that
//!   delays, and on request faults ([`Faults`]): for everything else.
//!
//! The same seed gives the same world, byte for byte.

mod agenda;
mod check;
mod faults;
mod inspect;
mod random;
mod settings;
mod site;
mod watch;
mod world;

pub use check::Violation;
pub use faults::Faults;
pub use random::SplitMix64;
pub use settings::{Model, Settings};
pub use watch::{Outcome, Watch};
pub use world::World;
