//! The control plane itself: collect, close, release.

use crate::{
    admit::{self, Ruling},
    dispatch::Flights,
    input::{Deed, Effect, Input, Output, Request},
    journal::BadJournal,
    observe::{Links, Seen},
    order,
    pricing::Pricing,
};
use cleave_engine::{
    planner::Planner,
    state::{Sink, State},
};
use cleave_model::{
    Millis, Name,
    action::{Failure, Verb},
    event::{Batch, Event},
    message::{Message, Order},
    observation::{ActionResult, MessageNo, NodeReport, WorkerReport, WorkerState},
    plan::Budget,
};
use std::collections::{BTreeMap, VecDeque};

/// A control plane around one state and one planner.
#[derive(Debug)]
pub struct Control<P: Planner> {
    planner: P,
    scratch: P::Scratch,
    budget: Budget,
    state: State,
    /// The first record of this start, until it is written.
    opening: Option<Vec<Event>>,
    /// Number of the first record of this start: higher than that of every start before, and
    /// durable before the first message goes out.
    incarnation: u64,
    /// Messages sent in this start.
    messages: u64,
    requests: Vec<(u64, Request)>,
    reports: BTreeMap<Name, NodeReport>,
    attempts: Vec<WorkerReport>,
    links: Links,
    flights: Flights,
    pricing: Pricing,
    blocked: Option<u64>,
    held: VecDeque<Effect>,
    /// Something changed while a search stood behind work that it had passed over.
    passed_over: bool,
    /// When work that earlier parts of a search passed by is to be looked at again.
    wake_of_parts: Option<Millis>,
    plan_at: Option<Millis>,
    wake: Option<Millis>,
}

impl<P: Planner> Control<P> {
    /// A control plane whose first record is this genesis.
    pub fn new(planner: P, budget: Budget, genesis: Vec<Event>) -> Self {
        Self {
            planner,
            scratch: P::Scratch::default(),
            budget,
            state: State::new(),
            opening: Some(genesis),
            incarnation: 0,
            messages: 0,
            requests: Vec::new(),
            reports: BTreeMap::new(),
            attempts: Vec::new(),
            links: Links::default(),
            flights: Flights::default(),
            pricing: Pricing::default(),
            blocked: None,
            held: VecDeque::new(),
            passed_over: false,
            wake_of_parts: None,
            plan_at: None,
            wake: Some(0),
        }
    }

    /// Goes on where a journal ends: folds its records, decides nothing, and listens to every
    /// node before it believes that anything was lost. The intervals that it closed go to `sink`
    /// once more. The first record is a genesis, of whatever number.
    ///
    /// # Errors
    /// The journal has a gap.
    pub fn restore(
        planner: P,
        budget: Budget,
        journal: impl IntoIterator<Item = Batch>,
        sink: &mut dyn Sink,
    ) -> Result<Self, BadJournal> {
        let mut control = Self::new(planner, budget, Vec::new());
        for batch in journal {
            let (number, expected) = (batch.number, control.state.batch() + 1);
            if number != expected && expected > 1 {
                return Err(BadJournal::Gap {
                    expected,
                    found: number,
                });
            }
            if batch.now < control.state.now() {
                return Err(BadJournal::Backwards { number });
            }
            control.fold(&batch, sink);
        }
        Ok(control)
    }

    /// What is known, ahead of what is durable.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The planner.
    pub fn planner(&self) -> &P {
        &self.planner
    }

    /// Which start of the control plane this is; 0 before its first record.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The refinement without whose answer [`Control::close`] does not go on.
    pub fn blocked_on_refine(&self) -> Option<u64> {
        self.blocked
    }

    /// Takes something in. Nothing happens before [`Control::close`].
    pub fn input(&mut self, input: Input) {
        match input {
            Input::Request { from, request } => self.requests.push((from, request)),
            Input::Report(report) => self.report(report),
            Input::Attempt(sight) => self.attempts.push(sight),
            Input::Result(result) => self.attempts.extend(hint(result)),
            Input::Refined { asked_at, prices } => {
                self.pricing.answer(asked_at, prices);
                self.blocked = self.blocked.filter(|&waiting| waiting != asked_at);
            }
        }
    }

    /// Of several reports of one node the latest is enough.
    fn report(&mut self, report: NodeReport) {
        let age = |report: &NodeReport| (report.heard.incarnation, report.seq);
        let old = self.reports.get(&report.node);
        if old.is_none_or(|old| age(old) < age(&report)) {
            self.reports.insert(report.node.clone(), report);
        }
    }

    /// Closes the batch: makes facts of what came in, folds them, lets the planner decide, and
    /// names what is to be told. Does nothing if nothing came in and nothing is due, or while
    /// [`Control::blocked_on_refine`]. A `now` before the last one counts as the last one.
    pub fn close(&mut self, now: Millis, sink: &mut dyn Sink) -> Output {
        let now = now.max(self.state.now());
        let mut records = Vec::new();
        let opening = self.opening.take();
        let first = opening.is_some();
        if let Some(genesis) = opening {
            self.incarnation = self.record(now, genesis, sink, &mut records);
            self.flights.inherit(&self.state, now);
        }
        let quiet = self.requests.is_empty() && self.reports.is_empty() && self.attempts.is_empty();
        let due = self.wake.is_some_and(|at| at <= now);
        if quiet && !due && !first {
            return Output {
                records,
                wake: self.wake,
            };
        }

        let rulings = admit::rule(
            &self.state,
            self.requests.iter().map(|(_, request)| request),
        );
        let arrivals: u64 = self
            .requests
            .iter()
            .zip(&rulings)
            .map(|((_, request), ruling)| match request {
                Request::Submit(work) if *ruling == Ruling::New => u64::from(work.workers()),
                _ => 0,
            })
            .sum();
        let mut seen = Seen::default();
        match self.pricing.due(self.state.arrivals() + arrivals) {
            Ok(prices) if arrivals > 0 => {
                seen.events.extend(prices.into_iter().map(Event::Priced));
            }
            Ok(_) => {}
            Err(asked_at) => {
                self.blocked = Some(asked_at);
                self.ask_for_prices();
                return Output {
                    records,
                    wake: None,
                };
            }
        }
        self.observe(now, &mut seen);
        for ((from, request), ruling) in self.requests.drain(..).zip(rulings) {
            let reply = match ruling {
                Ruling::Refused(refusal) => Err(refusal),
                Ruling::Known => Ok(()),
                Ruling::New => {
                    seen.events.push(admit::fact(request));
                    Ok(())
                }
            };
            self.held.push_back(Effect {
                after: 0,
                what: Deed::Answer { to: from, reply },
            });
        }
        order::canonical(&mut seen.events);

        let active = first || due || !seen.events.is_empty();
        if active {
            self.advance(now, &mut seen, first, sink, &mut records);
        }
        self.tell(now, seen.orders, active, sink, &mut records);
        self.ask_for_prices();
        let last = self.state.batch();
        // Effects that are held from before have their record already.
        self.held
            .iter_mut()
            .filter(|e| e.after == 0)
            .for_each(|effect| effect.after = last);
        let flights = self.flights.wake(&self.state, &self.links);
        self.wake = [self.plan_at, flights].into_iter().flatten().min();
        Output {
            records,
            wake: self.wake,
        }
    }

    /// The effects that waited for records up to `number`, which are now durable. To be carried
    /// out in order.
    pub fn durable(&mut self, number: u64) -> Vec<Effect> {
        let ready = self
            .held
            .iter()
            .take_while(|effect| effect.after <= number)
            .count();
        self.held.drain(..ready).collect()
    }

    fn fold(&mut self, batch: &Batch, sink: &mut dyn Sink) {
        self.state.apply(batch, sink);
        self.pricing.follow(batch, &self.state);
    }

    fn record(
        &mut self,
        now: Millis,
        events: Vec<Event>,
        sink: &mut dyn Sink,
        records: &mut Vec<Batch>,
    ) -> u64 {
        let batch = Batch {
            number: self.state.batch() + 1,
            now,
            events,
        };
        self.fold(&batch, sink);
        records.push(batch);
        self.state.batch()
    }

    fn observe(&mut self, now: Millis, seen: &mut Seen) {
        let (state, flights) = (&self.state, &mut self.flights);
        for sight in self.attempts.drain(..) {
            self.links.attempt(state, flights, &sight, now, seen);
        }
        for (_, report) in std::mem::take(&mut self.reports) {
            self.links
                .report(state, flights, &report, self.incarnation, now, seen);
        }
    }

    /// Folds what came in, draws conclusions, decides.
    fn advance(
        &mut self,
        now: Millis,
        seen: &mut Seen,
        first: bool,
        sink: &mut dyn Sink,
        records: &mut Vec<Batch>,
    ) {
        let events = std::mem::take(&mut seen.events);
        let nodes = |event: &Event| matches!(event, Event::Node(_) | Event::NodeGone(_));
        let greet = first || events.iter().any(nodes);
        let cut: Vec<(Name, u8)> = events
            .iter()
            .filter_map(|event| failed_cut(&self.state, event))
            .collect();
        for event in &events {
            if let Event::NodeGone(node) = event {
                self.links.part(node);
            }
        }
        let changed = first || !events.is_empty();
        if !events.is_empty() || self.state.now() < now {
            self.record(now, events, sink, records);
        }
        self.passed_over |= changed && self.state.cursor().is_some();
        if greet {
            let last = self.last_message();
            self.links.greet(&self.state, last, now, seen);
        }

        let limit = self.state.policy().quarantine_after;
        let mut concluded: Vec<Event> = cut
            .into_iter()
            .filter(|(node, gpu)| {
                limit > 0 && self.state.cut_failures(node.as_str(), *gpu) >= limit
            })
            .map(|(node, gpu)| Event::GpuSick(node, gpu, true))
            .collect();
        concluded.extend(self.flights.overdue(&self.state, &self.links, now));
        order::canonical(&mut concluded);
        if !concluded.is_empty() {
            self.record(now, concluded, sink, records);
        }

        let plan = self
            .planner
            .plan(&self.state, &mut self.scratch, now, self.budget);
        let moved = plan.truncated.as_ref() != self.state.cursor();
        // A search that was cut short goes on at once. Who was passed over before something
        // changed is looked at again when it has come to its end.
        let again = match plan.truncated {
            Some(_) => moved,
            None => std::mem::take(&mut self.passed_over),
        };
        // The parts of a search have one time to wake up, the earliest.
        let wake = [self.wake_of_parts, plan.wake_at]
            .into_iter()
            .flatten()
            .min();
        self.wake_of_parts = wake.filter(|_| plan.truncated.is_some());
        self.plan_at = match again {
            true => Some(now),
            false => wake.map(|at| at.max(now + 1)),
        };
        if moved || !plan.is_idle() {
            self.record(now, vec![Event::Decided(plan)], sink, records);
        }
    }

    /// Numbers what is to be told: orders that may be lost, then actions, whose telling is a
    /// fact before it happens.
    fn tell(
        &mut self,
        now: Millis,
        orders: Vec<(Name, Order)>,
        active: bool,
        sink: &mut dyn Sink,
        records: &mut Vec<Batch>,
    ) {
        for (node, order) in orders {
            self.send(node, order);
        }
        if !active {
            return;
        }
        let mut sent = Vec::new();
        for (name, node, order) in self.flights.due(&self.state, now) {
            sent.push(Event::Sent(name, self.send(node, order)));
        }
        if !sent.is_empty() {
            self.record(now, sent, sink, records);
        }
    }

    fn last_message(&self) -> MessageNo {
        MessageNo {
            incarnation: self.incarnation,
            number: self.messages,
        }
    }

    fn send(&mut self, node: Name, order: Order) -> MessageNo {
        self.messages += 1;
        let no = self.last_message();
        let message = Message { no, order };
        self.held.push_back(Effect {
            after: 0,
            what: Deed::Send { node, message },
        });
        no
    }

    fn ask_for_prices(&mut self) {
        let after = self.state.batch();
        let asked = self.pricing.ask();
        let deeds = asked.map(|asked_at| Effect {
            after,
            what: Deed::Refine { asked_at },
        });
        self.held.extend(deeds);
    }
}

/// The sight of an attempt that an early hint amounts to. That an eviction is done does not say
/// how the worker ended; the next report does.
fn hint(result: ActionResult) -> Option<WorkerReport> {
    let cleave_model::action::Subject::Worker(worker) = result.action.subject else {
        return None;
    };
    let state = match (result.action.verb, result.outcome) {
        (Verb::Place, Ok(())) => WorkerState::Running,
        (Verb::Place, Err(why)) => WorkerState::Failed(why),
        (Verb::Evict, _) => return None,
    };
    Some(WorkerReport {
        worker,
        attempt: result.action.attempt,
        state,
    })
}

/// The GPU whose cutting failed for good reason to be counted.
fn failed_cut(state: &State, event: &Event) -> Option<(Name, u8)> {
    let Event::Failed(worker, attempt, Failure::Cut(gpu)) = event else {
        return None;
    };
    let lease = state
        .lease(worker)
        .filter(|lease| lease.attempt == *attempt)?;
    Some((lease.hold.node.clone(), *gpu))
}
