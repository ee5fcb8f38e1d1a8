//! Decisions made again by planners that remember nothing.

use cleave_engine::{
    planner::Planner,
    state::{NoSink, State},
};
use cleave_model::{
    event::{Batch, Event},
    plan::{Budget, Plan},
};

/// Follows the records of one close from the state before it. If a plan was decided, the same
/// plan must come out of a fresh scratch, and of a state made from the genesis of this one; and
/// once it is folded, a search that saw everything has nothing to add. Tells whether there was
/// a plan.
///
/// # Errors
/// What differs.
pub fn decisions<P: Planner>(
    planner: &P,
    budget: Budget,
    mut state: State,
    records: &[Batch],
) -> Result<bool, String> {
    let plan = |state: &State, batch: &Batch| {
        planner.plan(state, &mut P::Scratch::default(), batch.now, budget)
    };
    let mut found = false;
    for batch in records {
        let [Event::Decided(decided)] = &batch.events[..] else {
            state.apply(batch, &mut NoSink);
            continue;
        };
        found = true;
        same("a fresh scratch", decided, &plan(&state, batch))?;
        let twin = twin(&state);
        let (ours, theirs) = (state.canonical(), twin.canonical());
        if let Some((ours, theirs)) = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b) {
            return Err(format!("genesis gives `{theirs}` for `{ours}`"));
        }
        if ours != theirs {
            return Err("genesis gives a state of another length".into());
        }
        same("the state of a genesis", decided, &plan(&twin, batch))?;
        let whole = decided.truncated.is_none() && state.cursor().is_none();
        state.apply(batch, &mut NoSink);
        let again = plan(&state, batch);
        if whole && !again.is_idle() {
            return Err(format!("{again:?} follows {decided:?}"));
        }
    }
    Ok(found)
}

/// An equal state, made from the genesis of this one.
fn twin(state: &State) -> State {
    let genesis = Batch {
        number: state.batch(),
        now: state.now(),
        events: state.genesis(),
    };
    let mut twin = State::new();
    twin.apply(&genesis, &mut NoSink);
    twin
}

fn same(whose: &str, decided: &Plan, other: &Plan) -> Result<(), String> {
    match decided == other {
        true => Ok(()),
        false => Err(format!("{whose} gives {other:?}, decided was {decided:?}")),
    }
}
