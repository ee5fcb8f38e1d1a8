//! Cleave's words as types: what is asked, what there is, what happened, what was decided.
//!
//! Knows no clock, no I/O and no other crate of the project. Everything here is a plain value
//! that can be written to a journal and read back; nothing here decides.

pub mod action;
pub mod ask;
pub mod board;
pub mod event;
pub mod lease;
pub mod message;
pub mod name;
pub mod node;
pub mod observation;
pub mod plan;
pub mod policy;
pub mod prices;
pub mod queue;
pub mod units;
pub mod verdict;
pub mod workload;

pub use name::{Name, WorkerId};
pub use units::{GPU, Millis};
