//! When prices are asked for and when they take effect, counted in arrivals.
//!
//! A refinement is asked for by the batch that completes another `refine_every` arrivals, and
//! takes effect with the first batch that goes beyond `refine_lag` arrivals after that; if the
//! answer is not there by then, that batch waits for it. So when prices change depends on what
//! arrived and on nothing else.

use cleave_engine::state::State;
use cleave_model::{event::Batch, event::Event, prices::Prices};
use std::collections::VecDeque;

/// Refinements under way.
#[derive(Clone, Debug, Default)]
pub struct Pricing {
    pending: VecDeque<Pending>,
    rounds: u64,
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
        for event in &batch.events {
            if matches!(event, Event::Priced(_)) {
                self.pending.pop_front();
            }
        }
        let policy = state.policy();
        let arrivals = state.arrivals();
        let Some(rounds) = arrivals.checked_div(policy.refine_every) else {
            self.pending.clear();
            return;
        };
        if rounds > self.rounds {
            let due = arrivals.saturating_add(policy.refine_lag);
            self.pending.push_back(Pending {
                asked_at: arrivals,
                due,
                told: false,
                answer: None,
            });
        }
        self.rounds = rounds;
    }

    /// Refinements that nobody was told of yet; they count as told from now on.
    pub fn ask(&mut self) -> impl Iterator<Item = u64> {
        let untold = self.pending.iter_mut().filter(|pending| !pending.told);
        untold.map(|pending| {
            pending.told = true;
            pending.asked_at
        })
    }

    /// Keeps an answer; one that nobody waits for is dropped.
    pub fn answer(&mut self, asked_at: u64, prices: Prices) {
        let waiting = self.pending.iter_mut().find(|p| p.asked_at == asked_at);
        if let Some(pending) = waiting {
            pending.answer.get_or_insert(prices);
        }
    }

    /// The prices that take effect when the count of arrivals becomes `arrivals`.
    ///
    /// # Errors
    /// The first refinement that must be answered before.
    pub fn due(&self, arrivals: u64) -> Result<Vec<Prices>, u64> {
        self.pending
            .iter()
            .take_while(|pending| pending.due < arrivals)
            .map(|pending| pending.answer.clone().ok_or(pending.asked_at))
            .collect()
    }
}
