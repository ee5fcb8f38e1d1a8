//! Rules that the world checks from outside, against what really runs.

use cleave_engine::state::Sink;
use cleave_model::{
    GPU, Millis, Name, WorkerId,
    board::Board,
    event::{Batch, Event, Interval},
    lease::{Hold, Slice},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// A rule found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub now: Millis,
    /// Which, with the object concerned.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ms: {}", self.now, self.what)
    }
}

impl std::error::Error for Violation {}

/// Adds up closed intervals: each GPU has exactly one owner and state per unit and millisecond.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    spans: BTreeMap<(Name, u8), Span>,
    /// When nodes came, perhaps back: what was not there before belonged to nobody.
    came: BTreeSet<(Name, Millis)>,
    /// The first GPU whose parts did not add up.
    pub broken: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: Millis,
    to: Millis,
    units: u32,
}

impl Meter {
    /// Takes note of a record, before any interval that begins with it.
    pub fn follow(&mut self, batch: &Batch) {
        let came = batch.events.iter().filter_map(|event| match event {
            Event::Node(node) => Some((node.name.clone(), batch.now)),
            _ => None,
        });
        self.came.extend(came);
    }
}

impl Sink for Meter {
    fn interval(&mut self, interval: Interval) {
        let Interval {
            node,
            gpu,
            units,
            from,
            to,
            ..
        } = interval;
        let next = Span { from, to, units };
        match self.spans.get_mut(&(node.clone(), gpu)) {
            None => {
                self.spans.insert((node, gpu), next);
            }
            Some(span) if (span.from, span.to) == (from, to) && span.units < GPU => {
                span.units += units;
            }
            Some(span) => {
                let follows = span.to == from || self.came.contains(&(node.clone(), from));
                if span.units != GPU || !follows {
                    let shown = format!("{node}/{gpu}: {span:?} is followed by {next:?}");
                    self.broken.get_or_insert(shown);
                }
                *span = next;
            }
        }
    }
}

/// What really runs: processes by worker, with what they hold.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    live: BTreeMap<WorkerId, (u32, Hold)>,
    ran: BTreeSet<(WorkerId, u32)>,
}

impl Truth {
    /// A process begins.
    ///
    /// # Errors
    /// The attempt ran before, the worker lives elsewhere, or its slices overlap with another's.
    pub fn begin(
        &mut self,
        worker: &WorkerId,
        attempt: u32,
        hold: &Hold,
        board: impl Fn(u8) -> Option<Arc<Board>>,
    ) -> Result<(), String> {
        if !self.ran.insert((worker.clone(), attempt)) {
            return Err(format!("attempt {attempt} of {worker} runs a second time"));
        }
        if let Some((other, _)) = self.live.get(worker) {
            return Err(format!(
                "{worker} runs in attempts {other} and {attempt} at once"
            ));
        }
        for (other, (_, theirs)) in &self.live {
            if theirs.node != hold.node {
                continue;
            }
            for (a, b) in pairs(&theirs.slices, &hold.slices) {
                if a.gpu == b.gpu && clash(a, b, board(a.gpu).as_deref()) {
                    return Err(format!(
                        "{worker} on {b} overlaps {other} on {a} of {}",
                        hold.node
                    ));
                }
            }
        }
        self.live.insert(worker.clone(), (attempt, hold.clone()));
        Ok(())
    }

    /// A process is gone.
    pub fn end(&mut self, worker: &WorkerId) {
        self.live.remove(worker);
    }
}

fn pairs<'a>(a: &'a [Slice], b: &'a [Slice]) -> impl Iterator<Item = (&'a Slice, &'a Slice)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

fn clash(a: &Slice, b: &Slice, board: Option<&Board>) -> bool {
    match (a.instance, b.instance) {
        (i, j) if i == j => a.share.is_none() || b.share.is_none(),
        (Some(i), Some(j)) => {
            let size = |profile| board.map_or(1, |board| board.at(profile).size);
            i.start < j.start + size(j.profile) && j.start < i.start + size(i.profile)
        }
        _ => true,
    }
}
