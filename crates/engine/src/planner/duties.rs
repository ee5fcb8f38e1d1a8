//! Duties: what must be done whatever else is decided. Never cut short by a budget.

use crate::state::{State, Work, place_name};
use cleave_model::{
    Millis,
    action::{Action, ActionName, Cause, Subject, Verb, What},
    lease::{Lease, Phase},
    node::Health,
    plan::Plan,
};

/// Work that was cancelled leaves, nodes that are going are emptied, gangs that can't be completed
/// in time are undone.
pub(super) fn emit(state: &State, now: Millis, plan: &mut Plan) {
    let leave =
        |lease: &Lease, cause: Cause, plan: &mut Plan| evict(state, lease, cause, now, plan);
    for work in state.leaving() {
        held(work).for_each(|lease| leave(lease, Cause::User, plan));
    }
    for books in state.closing() {
        if matches!(books.health, Health::Reclaiming(_)) {
            for lease in state.leases_on(books.name().as_str()) {
                leave(lease, Cause::Node(books.name().clone()), plan);
            }
        }
    }
    for (name, since) in state.ailing() {
        let Some(work) = state.workload(name.as_str()) else {
            continue;
        };
        let until = since + state.policy().start_deadline_ms;
        if !may_be_completed(state, *since, now) {
            held(work).for_each(|lease| leave(lease, Cause::StaleGang, plan));
        } else {
            plan.wake_at = Some(plan.wake_at.map_or(until, |wake| wake.min(until)));
        }
    }
}

/// Whether a gang that has been below its minimum since then may still be brought back to it.
pub(super) fn may_be_completed(state: &State, since: Millis, now: Millis) -> bool {
    now < since + state.policy().start_deadline_ms
}

fn held(work: &Work) -> impl Iterator<Item = &Lease> {
    work.workers.iter().filter_map(|worker| worker.lease())
}

/// Takes back what was only promised; tells what is there to leave, once.
fn evict(state: &State, lease: &Lease, cause: Cause, now: Millis, plan: &mut Plan) {
    let name = ActionName {
        subject: Subject::Worker(lease.worker.clone()),
        attempt: lease.attempt,
        verb: Verb::Evict,
        n: 0,
    };
    match lease.phase {
        Phase::Promised => {
            let place = place_name(&lease.worker, lease.attempt);
            if !plan.withdrawn.contains(&place) {
                plan.withdrawn.push(place);
            }
        }
        Phase::Preparing | Phase::Running => {
            let told = state.open(&name).is_some() || plan.actions.iter().any(|a| a.name == name);
            if !told {
                let grace_ms = state.policy().grace_ms;
                plan.actions.push(Action {
                    name,
                    what: What::Evict { grace_ms },
                    after: Vec::new(),
                    deadline: now + grace_ms + state.policy().start_deadline_ms,
                    cause,
                });
            }
        }
        Phase::Draining => {}
    }
}
