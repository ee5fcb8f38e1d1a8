//! When prices are asked for and when they take effect, counted in arrivals.
//!
//! The first refinement is asked for with the first arrivals, or before them where the mix is
//! known beforehand; each further one a number of arrivals after the last that the engine derives
//! from the prices in force ([`pause`]), so that prices follow the supply when it runs out. An
//! answer takes effect with the first batch that goes beyond `refine_lag` arrivals after the
//! question; if it is not there by then, that batch waits for it. One is under way at a time. So
//! when prices change depends on what arrived and on nothing else.

use cleave_engine::{planner::pause, state::State};
use cleave_model::{event::Batch, event::Event, prices::Prices};

/// The refinement under way, and when the last was asked for.
#[derive(Clone, Debug, Default)]
pub struct Pricing {
    pending: Option<Pending>,
    asked_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Pending {
    asked_at: u64,
    due: u64,
    told: bool,
    answer: Option<Prices>,
}

impl Pricing {
    /// Follows a batch that was folded, live or in replay.
    pub fn follow(&mut self, batch: &Batch, state: &State) {
        if batch
            .events
            .iter()
            .any(|event| matches!(event, Event::Priced(_)))
        {
            self.pending = None;
        }
        let (policy, arrivals) = (state.policy(), state.arrivals());
        if policy.refine_every == 0 {
            self.pending = None;
            return;
        }
        if self.pending.is_some() {
            return;
        }
        let wanted = match self.asked_at {
            None => state.node_count() > 0 && (state.knows_mix() || arrivals > 0),
            Some(at) => arrivals >= at.saturating_add(pause(state).min(policy.refine_every)),
        };
        if !wanted {
            return;
        }
        // Before the first arrival there is nothing that could go on meanwhile.
        let lag = if arrivals == 0 { 0 } else { policy.refine_lag };
        let due = arrivals.saturating_add(lag);
        self.pending = Some(Pending {
            asked_at: arrivals,
            due,
            told: false,
            answer: None,
        });
        self.asked_at = Some(arrivals);
    }

    /// The refinement that nobody was told of yet; it counts as told from now on.
    pub fn ask(&mut self) -> impl Iterator<Item = u64> {
        let untold = self.pending.iter_mut().filter(|pending| !pending.told);
        untold.map(|pending| {
            pending.told = true;
            pending.asked_at
        })
    }

    /// Keeps an answer; one that nobody waits for is dropped.
    pub fn answer(&mut self, asked_at: u64, prices: Prices) {
        if let Some(pending) = self.pending.as_mut().filter(|p| p.asked_at == asked_at) {
            pending.answer.get_or_insert(prices);
        }
    }

    /// The prices that take effect when the count of arrivals becomes `arrivals`.
    ///
    /// # Errors
    /// The refinement that must be answered before.
    pub fn due(&self, arrivals: u64) -> Result<Vec<Prices>, u64> {
        let due = self.pending.iter().filter(|pending| pending.due < arrivals);
        due.map(|pending| pending.answer.clone().ok_or(pending.asked_at))
            .collect()
    }
}
