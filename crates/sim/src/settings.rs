//! What a world is like.

use crate::faults::Faults;
use cleave_device::gpu::Latencies;
use cleave_model::{Millis, plan::Budget};

/// What the world is like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bound of every plan.
    pub budget: Budget,
    /// How nodes behave; `None`: instantly.
    pub model: Option<Model>,
    /// Check the rules after everything that happens. Costs time in the size of the world.
    pub check: bool,
    /// Make a decision again, with nothing remembered, after so many facts.
    pub inspect_every: Option<u64>,
    /// Keep the records, for replay.
    pub keep_journal: bool,
}

/// How modelled nodes and the network behave.
#[derive(Clone, Debug)]
pub struct Model {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How long calls to GPUs take.
    pub latencies: Latencies,
    /// From the order to a running process.
    pub start_ms: Millis,
    /// From being told to leave to being gone, on average.
    pub stop_ms: Millis,
    /// From sending to arriving.
    pub network_ms: Millis,
    /// Between two reports of hands that have nothing new to tell.
    pub heartbeat_ms: Millis,
    /// What goes wrong.
    pub faults: Faults,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            seed: 0,
            latencies: Latencies::default(),
            start_ms: 2_000,
            stop_ms: 5_000,
            network_ms: 5,
            heartbeat_ms: 10_000,
            faults: Faults::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Budget::UNBOUNDED,
            model: None,
            check: false,
            inspect_every: None,
            keep_journal: false,
        }
    }
}
