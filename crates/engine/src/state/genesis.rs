//! Genesis: any state as ordinary facts, from which an equal state is made.

use super::State;
use cleave_model::{
    event::{Event, WorkerPast},
    node::Health,
    plan::VerdictChange,
};
use std::collections::BTreeSet;

/// Facts in an order in which each finds what it refers to.
pub(super) fn facts(state: &State) -> Vec<Event> {
    let mut facts = vec![Event::Policy(state.policy.clone())];
    let boards = &state.boards;
    facts.extend(
        boards
            .ids()
            .map(|id| Event::Board((**boards.board(id)).clone())),
    );
    facts.extend(state.queues.values().cloned().map(Event::Queue));
    for &ix in state.by_name.values() {
        let slot = state.slot(ix);
        let books = &slot.books;
        let name = books.name();
        facts.push(Event::Node((*books.node).clone()));
        if books.health != Health::Ready {
            facts.push(Event::NodeHealth(name.clone(), books.health));
        }
        for (gpu, device) in (0..).zip(&books.gpus) {
            if device.sick {
                facts.push(Event::GpuSick(name.clone(), gpu, true));
            }
        }
    }
    if let Some(prior) = &state.prior {
        facts.push(Event::Prior(prior.to_vec()));
    }
    facts.extend(
        state
            .work
            .values()
            .map(|work| Event::Submit((*work.spec).clone())),
    );
    facts.push(Event::Arrivals(
        state
            .asks
            .sorted()
            .filter(|(.., count)| *count > 0)
            .map(|(_, ask, count)| ((**ask).clone(), count))
            .collect(),
    ));
    if let Some(prices) = &state.prices {
        facts.push(Event::Priced((**prices).clone()));
    }
    for lease in state.leases() {
        facts.push(Event::Lease(lease.clone()));
    }
    let mut said = BTreeSet::new();
    for (name, work) in &state.work {
        for (index, worker) in (0..).zip(&work.workers) {
            if worker.past != WorkerPast::default() {
                facts.push(Event::Worker(work.id(index), worker.past));
            }
        }
        if let Some(&since) = state.ailing.get(name) {
            facts.push(Event::Ailing(name.clone(), since));
        }
        if let Some(verdict) = state.classes.verdict(work.class)
            && said.insert(work.class)
        {
            let change = VerdictChange {
                like: name.clone(),
                verdict: verdict.clone(),
            };
            facts.push(Event::Verdict(change));
        }
    }
    for open in state.open.values() {
        facts.push(Event::Open(
            open.action.clone(),
            open.life.clone(),
            open.message,
        ));
    }
    let cancelled = state.work.values().filter(|work| work.cancelled);
    facts.extend(cancelled.map(|work| Event::Cancel(work.name().clone())));
    facts.extend(state.cursor.clone().map(Event::Cursor));
    for &ix in state.by_name.values() {
        let slot = state.slot(ix);
        let name = slot.books.name();
        for (gpu, device) in (0..).zip(&slot.gpus) {
            if device.cut_failures > 0 {
                facts.push(Event::CutFailures(name.clone(), gpu, device.cut_failures));
            }
        }
        let metered = slot.gpus.iter().map(|device| device.metered_to).collect();
        facts.push(Event::MeteredTo(name.clone(), metered));
    }
    facts
}
