//! Metering: every GPU-millisecond has exactly one owner and one state, and they sum.

use super::State;
use crate::inventory::{NodeIx, Use, weight};
use cleave_model::{
    GPU, Millis, WorkerId,
    event::{GpuTime, Interval},
    lease::Phase,
    node::Health,
};

/// Takes closed intervals as they come.
pub trait Sink {
    /// One part of one GPU spent this long in one state.
    fn interval(&mut self, interval: Interval);

    /// Whether anybody looks; if not, intervals are not made.
    fn wants_intervals(&self) -> bool {
        true
    }
}

/// Lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl Sink for NoSink {
    fn interval(&mut self, _: Interval) {}

    fn wants_intervals(&self) -> bool {
        false
    }
}

impl Sink for Vec<Interval> {
    fn interval(&mut self, interval: Interval) {
        self.push(interval);
    }
}

/// A part of a GPU: who has it, as what, how much in GPU units.
pub(super) type Part = (Option<(WorkerId, u32)>, GpuTime, u32);

/// Hands out what one GPU was between two moments at which nothing on it changed.
pub(super) fn close(
    state: &State,
    node: NodeIx,
    gpu: usize,
    from: Millis,
    to: Millis,
    sink: &mut dyn Sink,
) {
    if !sink.wants_intervals() {
        return;
    }
    let name = state.slot(node).books.name();
    for (owner, what, units) in parts(state, node, gpu) {
        let node = name.clone();
        let gpu = gpu as u8;
        sink.interval(Interval {
            node,
            gpu,
            owner,
            state: what,
            units,
            from,
            to,
        });
    }
}

/// The parts of one GPU now; they sum to a whole GPU. Where leases contradict each other, those
/// that come first keep their weight and the others get what is left.
pub(super) fn parts(state: &State, node: NodeIx, gpu: usize) -> Vec<Part> {
    let slot = state.slot(node);
    let books = &slot.books;
    let device = &books.gpus[gpu];
    let board = state.boards.board(device.board);
    let lost = books.health == Health::Lost;
    let mut left = GPU;
    let mut parts = Vec::with_capacity(slot.gpus[gpu].slices.len() + 2);
    for (worker, slice) in &slot.gpus[gpu].slices {
        let Some(lease) = state.lease(worker) else {
            continue;
        };
        let units = weight(slice, board).min(left);
        let what = match lease.phase {
            _ if lost => GpuTime::Lost,
            Phase::Promised => GpuTime::Promised,
            Phase::Preparing => GpuTime::Reconfiguring,
            Phase::Running => GpuTime::Held,
            Phase::Draining => GpuTime::Draining,
        };
        left -= units;
        parts.push((Some((worker.clone(), lease.attempt)), what, units));
    }
    let stranded = match &device.used {
        Use::Free => 0,
        Use::Whole => left,
        Use::Shared(shares) => {
            let full = shares.compute >= GPU || shares.memory_mib >= board.memory_mib;
            if full { left } else { 0 }
        }
        Use::Cut { layout, .. } => state.boards.layouts(device.board).stranded(*layout),
    };
    let stranded = stranded.min(left);
    let idle = |what| match () {
        () if lost => GpuTime::Lost,
        () if device.sick || !books.is_open() => GpuTime::Down,
        () => what,
    };
    for (what, units) in [
        (GpuTime::Stranded, stranded),
        (GpuTime::Free, left - stranded),
    ] {
        if units > 0 {
            parts.push((None, idle(what), units));
        }
    }
    parts
}
