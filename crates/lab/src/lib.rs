//! Trace readers, baselines, bounds, studies and reports.
//!
//! * [`trace`] reads recorded workloads: openb lists, arrival orders, job lists in any CSV.
//! * [`baseline`] restates schedulers that others published, over a plain view of a node, so that
//!   every comparison runs in one process on the same input.
//! * [`planners`] puts them behind the engine's own interface.
//! * [`convert`] turns traces into facts that an engine's state is made of.
//! * [`drive`] puts a planner over a state and lets what it decides happen.
//! * [`protocol`] is the benchmark they were published with: arrivals only, nothing leaves.
//! * [`study`] holds the comparisons that the documents quote.

pub mod baseline;
pub mod convert;
pub mod drive;
pub mod planners;
pub mod play;
pub mod protocol;
pub mod random;
pub mod sample;
pub mod study;
pub mod trace;
