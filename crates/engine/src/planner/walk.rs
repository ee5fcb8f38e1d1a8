//! Serving waiting work turn by turn: the part of planning that does not depend on how a place
//! is chosen.

use super::{
    Planner, duties,
    why::{self, Case},
};
use crate::{
    constraints::Domains,
    fit::{As, Need},
    inventory::{NodeBooks, NodeIx},
    state::{AskIx, ClassIx, State, Work, Worker, place_name},
};
use cleave_model::{
    Millis, Name,
    action::{Action, Cause, Subject, Verb, What},
    ask::AffinityKind,
    lease::Hold,
    plan::{Budget, Cursor, Plan, VerdictChange},
    verdict::{Reason, Verdict},
};
use std::collections::{BTreeMap, BTreeSet};

/// Chooses where one worker goes, on a working copy of what is left.
pub trait Packing: Clone {
    /// Whether it finds a place wherever there is a legal one.
    const COMPLETE: bool = true;

    /// Brings the working copy in line with the state.
    fn follow(&mut self, state: &State);

    /// Finds a place for one more worker of this ask, takes it from the working copy, and says on
    /// which node it is.
    fn place(&mut self, state: &State, ask: AskIx, domains: &Domains<'_>)
    -> Option<(NodeIx, Hold)>;

    /// Begins a trial.
    fn begin(&mut self);

    /// Ends the trial; what was placed since its beginning stays or is taken back.
    fn end(&mut self, keep: bool);
}

/// A planner that serves waiting work in turn and leaves the choice of places to a packing.
#[derive(Clone, Debug, Default)]
pub struct Walk<P> {
    packing: P,
}

impl<P: Packing> Walk<P> {
    /// A planner whose working copies begin as `packing`.
    pub fn new(packing: P) -> Self {
        Self { packing }
    }
}

/// What a [`Walk`] keeps between plans.
#[derive(Clone, Debug)]
pub struct Scratch<P> {
    packing: Option<P>,
    /// Asks that had no place, and the count of growth at which that was so.
    dead: BTreeMap<AskIx, u64>,
    nodes: why::Nodes,
}

impl<P> Default for Scratch<P> {
    fn default() -> Self {
        Self {
            packing: None,
            dead: BTreeMap::new(),
            nodes: why::Nodes::default(),
        }
    }
}

impl<P: Packing> Planner for Walk<P> {
    type Scratch = Scratch<P>;

    fn plan(
        &self,
        state: &State,
        scratch: &mut Self::Scratch,
        now: Millis,
        budget: Budget,
    ) -> Plan {
        let grown = state.changes().grown();
        scratch.dead.retain(|_, at| *at == grown);
        let packing = scratch.packing.get_or_insert_with(|| self.packing.clone());
        packing.follow(state);
        packing.begin();
        let mut round = Round {
            state,
            now,
            packing,
            dead: &mut scratch.dead,
            nodes: &mut scratch.nodes,
            hopeless: BTreeSet::new(),
            unserved: Vec::new(),
            alone: Vec::new(),
            placed: Vec::new(),
            touched: Vec::new(),
            plan: Plan::default(),
        };
        duties::emit(state, now, &mut round.plan);
        for (name, since) in state.ailing() {
            if duties::may_be_completed(state, *since, now) {
                let work = state.workload(name.as_str()).expect("ailing work is known");
                round.serve(work, &BTreeSet::new());
            }
        }
        round.walk(budget);
        round.follow_up();
        round.conclude();
        let plan = round.plan;
        packing.end(false);
        plan
    }
}

/// One plan in the making.
struct Round<'a, P> {
    state: &'a State,
    now: Millis,
    packing: &'a mut P,
    dead: &'a mut BTreeMap<AskIx, u64>,
    nodes: &'a mut why::Nodes,
    /// Classes of which a workload that holds nothing could not be placed in this round.
    hopeless: BTreeSet<ClassIx>,
    /// Workloads whose minimum had no place.
    unserved: Vec<&'a Work>,
    /// Workloads that must be near others and did not get all that they want.
    alone: Vec<&'a Work>,
    placed: Vec<(Name, NodeIx)>,
    /// Nodes on which this round has placed something, as they are then, by position.
    touched: Vec<Option<Box<NodeBooks>>>,
    plan: Plan,
}

/// Why a workload was not served in full.
enum Short {
    /// This group's minimum has no place; so it was wherever the others of its class would go,
    /// unless it depends on who is near.
    Minimum(usize, Anywhere),
    /// It waits until then after a failure.
    Until(Millis),
}

/// Whether nearness to other work had no part in a refusal.
type Anywhere = bool;

/// Whether some of it must be near other work.
fn is_near(work: &Work) -> bool {
    let mut limits = work.spec.groups.iter().map(|group| &group.ask.limits);
    limits.any(|limits| limits.affinity.iter().any(|a| a.kind == AffinityKind::Near))
}

impl<'a, P: Packing> Round<'a, P> {
    fn walk(&mut self, budget: Budget) {
        let state = self.state;
        let behind = state
            .cursor()
            .filter(|cursor| state.workload(cursor.last.as_str()).is_some());
        let turns: Box<dyn Iterator<Item = &Work>> = match behind {
            Some(cursor) => Box::new(state.waiting_behind(cursor)),
            None => Box::new(state.waiting()),
        };
        let mut last: Option<&Work> = None;
        for work in turns {
            if self.plan.steps >= budget.steps {
                let name = last.map(|work| work.name().clone());
                let name = name.or_else(|| behind.map(|cursor| cursor.last.clone()));
                self.plan.truncated = name.map(|last| Cursor { last });
                return;
            }
            if !state.ailing().contains_key(work.name()) {
                self.serve(work, &BTreeSet::new());
            }
            last = Some(work);
        }
    }

    /// Places what it can of one workload and says what is to be said of it. `already` are the
    /// workers that it got before in this round.
    fn serve(&mut self, work: &'a Work, already: &BTreeSet<u32>) {
        self.plan.steps += 1;
        // Its next attempt begins when the last one has left.
        if work.is_leaving() {
            return;
        }
        let fresh = !work.holds() && already.is_empty();
        if fresh && self.hopeless.contains(&work.class) {
            return;
        }
        let (before, mine) = (self.plan.actions.len(), self.placed.len());
        // Groups are placed one after the other. One that found no place behind others may find
        // it before them; each is moved to the front once.
        let mut order: Vec<usize> = (0..work.spec.groups.len()).collect();
        let mut moved = BTreeSet::from([0]);
        let result = loop {
            self.packing.begin();
            let result = self.fill(work, &order, already);
            self.packing.end(result.is_ok());
            if result.is_ok() {
                break result;
            }
            let undone = self.plan.actions.split_off(before);
            debug_assert_eq!(undone.len(), self.placed.len() - mine);
            self.placed.truncate(mine);
            match result {
                Err(Short::Minimum(group, _)) if moved.insert(group) => {
                    order.retain(|other| *other != group);
                    order.insert(0, group);
                }
                _ => break result,
            }
        };
        let new = self.plan.actions[before..].iter().zip(&self.placed[mine..]);
        for (action, &(_, ix)) in new {
            let What::Place(hold) = &action.what else {
                continue;
            };
            let at = ix.0 as usize;
            if self.touched.len() <= at {
                self.touched.resize(at + 1, None);
            }
            let now = || Box::new(self.state.node(ix).expect("known").clone());
            let taken = self.touched[at]
                .get_or_insert_with(now)
                .take(hold, self.state.boards());
            debug_assert!(taken.is_ok(), "{hold:?} does not fit: {taken:?}");
        }
        let more = work.missing() > already.len() + self.plan.actions.len() - before;
        if more && is_near(work) {
            self.alone.push(work);
        }
        match result {
            // Its minimum is done already, and for those it has left there is no room.
            Ok(()) if fresh && self.plan.actions.len() == before => self.unserved.push(work),
            Ok(()) => {}
            Err(Short::Until(then)) => self.wake_at(then),
            Err(Short::Minimum(_, anywhere)) => {
                if fresh && anywhere {
                    self.hopeless.insert(work.class);
                }
                self.unserved.push(work);
            }
        }
    }

    /// The workers of a workload that were placed in this round.
    fn already(&self, work: &Work) -> BTreeSet<u32> {
        let of_work = self
            .plan
            .actions
            .iter()
            .filter_map(|action| match &action.name.subject {
                Subject::Worker(id) if action.name.verb == Verb::Place => Some(id),
                _ => None,
            });
        let of_work = of_work.filter(|id| id.workload == *work.name());
        of_work.map(|id| id.index).collect()
    }

    /// Work that must be near other work may have got it only now.
    fn follow_up(&mut self) {
        loop {
            let before = self.placed.len();
            let mut again = std::mem::take(&mut self.alone);
            again.retain(|work| !self.hopeless.contains(&work.class));
            let names: BTreeSet<&Name> = again.iter().map(|work| work.name()).collect();
            self.unserved.retain(|other| !names.contains(other.name()));
            for work in again {
                let already = self.already(work);
                self.serve(work, &already);
            }
            if self.placed.len() == before {
                return;
            }
        }
    }

    /// Says why work waits: once per class, only if it is news, and as things are when all is
    /// placed, so that a second plan has nothing to add.
    fn conclude(&mut self) {
        if !self.unserved.is_empty() {
            self.nodes.follow(self.state, &self.touched);
        }
        let mut judged = BTreeSet::new();
        for work in std::mem::take(&mut self.unserved) {
            if !judged.insert(work.class) {
                continue;
            }
            let verdict = self.why(work);
            if self.state.class_verdict(work.class) != Some(&verdict) {
                let like = work.name().clone();
                self.plan.verdicts.push(VerdictChange { like, verdict });
            }
        }
    }

    /// First every group to its minimum, all or nothing; then as many more as there is room for.
    fn fill(&mut self, work: &Work, order: &[usize], already: &BTreeSet<u32>) -> Result<(), Short> {
        let mine = self.placed.len();
        let groups: Vec<_> = work.groups().collect();
        for extra in [false, true] {
            for &at in order {
                self.fill_group(work, groups[at], extra, (mine, already))?;
            }
        }
        Ok(())
    }

    /// One group to its minimum, or from there on. What this work gets now begins at `mine`;
    /// `already` are the workers that it got before in this round.
    fn fill_group(
        &mut self,
        work: &Work,
        (at, first, workers): (usize, u32, &[Worker]),
        extra: bool,
        (mine, already): (usize, &BTreeSet<u32>),
    ) -> Result<(), Short> {
        let state = self.state;
        let group = &work.spec.groups[at];
        let min = group.min as usize;
        let workers = || (first..).zip(workers);
        let placed = |index: u32| already.contains(&index);
        let live = workers().filter(|(index, worker)| worker.is_live() || placed(*index));
        let live = live.count();
        // What is missing to the minimum is placed before anything beyond it.
        let (mut wanted, skip) = match extra {
            false => (min.saturating_sub(live), 0),
            true => (
                workers().count().saturating_sub(live.max(min)),
                min.saturating_sub(live),
            ),
        };
        let missing = workers().filter(|(index, w)| w.is_missing() && !placed(*index));
        for (index, worker) in missing.skip(skip) {
            if wanted == 0 {
                break;
            }
            if worker.past.not_before > self.now {
                if extra {
                    self.wake_at(worker.past.not_before);
                    continue;
                }
                return Err(Short::Until(worker.past.not_before));
            }
            let ask = work.asks[at];
            let domains = Domains::of(state, work, &group.ask.limits, &self.placed);
            match self.place(ask, &domains) {
                Some(place) => {
                    wanted -= 1;
                    self.decide(work, index, place);
                }
                None if extra => break,
                None => {
                    if domains.is_free() && self.placed.len() == mine {
                        self.dead.insert(ask, state.changes().grown());
                    }
                    return Err(Short::Minimum(at, domains.is_free()));
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, ask: AskIx, domains: &Domains<'_>) -> Option<(NodeIx, Hold)> {
        // Charged alike whether the answer was remembered or not.
        self.plan.steps += 1;
        // Room only shrinks within a round, and between rounds while nothing grew.
        if self.dead.contains_key(&ask) {
            return None;
        }
        self.packing.place(self.state, ask, domains)
    }

    fn decide(&mut self, work: &Work, index: u32, (ix, hold): (NodeIx, Hold)) {
        self.placed.push((work.name().clone(), ix));
        let attempt = work.workers[index as usize].past.attempt + 1;
        self.plan.actions.push(Action {
            name: place_name(&work.id(index), attempt),
            what: What::Place(hold),
            after: Vec::new(),
            deadline: self.now + self.state.policy().start_deadline_ms,
            cause: Cause::Ask,
        });
    }

    /// The reason that says most, of all groups, as things are now. That a group could never have
    /// its minimum says more than that there is no room at the moment.
    fn why(&self, work: &Work) -> Verdict {
        let state = self.state;
        let books = |ix: NodeIx| {
            let touched = self.touched.get(ix.0 as usize).and_then(Option::as_deref);
            touched.unwrap_or_else(|| state.node(ix).expect("rows are of known nodes"))
        };
        let mut alone: Vec<Reason> = Vec::new();
        // Groups whose minimum empty nodes would not hold, and those that have no room now.
        let (mut never, mut now) = (Vec::new(), Vec::new());
        for (at, _, workers) in work.groups() {
            let (group, ix) = (&work.spec.groups[at], &work.asks[at]);
            let domains = Domains::of(state, work, &group.ask.limits, &self.placed);
            let ways = match state.ways(*ix) {
                Ok(ways) => ways,
                Err(reason) => {
                    alone.push(reason.clone());
                    continue;
                }
            };
            let need = Need::of(state.ask(*ix), ways, state.boards());
            let mut case = Case::new(self.nodes, books, need, &domains);
            let reason = case.reason(P::COMPLETE && self.dead.contains_key(ix));
            debug_assert_eq!(reason, case.reason(false), "{ix:?}");
            alone.extend(reason);
            if group.min == 1 {
                continue;
            }
            if !case.fit_together(group.min, As::Empty) {
                never.push(Reason::Gang(group.name.clone()));
            }
            let live = workers.iter().filter(|worker| worker.is_live()).count() as u32;
            if !case.fit_together(group.min.saturating_sub(live), As::Now) {
                now.push(Reason::Gang(group.name.clone()));
            }
        }
        let worst = alone.into_iter().min();
        let filter = worst.clone().filter(|reason| *reason < Reason::NodesClosed);
        let first = |gangs: Vec<Reason>| gangs.into_iter().next();
        let known = filter.or(first(never)).or(worst).or(first(now));
        // There is room for each group by itself: the groups were tried one after the other, so
        // that another choice for the first might have left room for the last is not excluded.
        let group = || work.spec.groups[0].name.clone();
        known.map_or_else(|| Verdict::BudgetEnded(Reason::Gang(group())), Verdict::Not)
    }

    fn wake_at(&mut self, then: Millis) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(then, |wake| wake.min(then)));
    }
}
