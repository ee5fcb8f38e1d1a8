//! The world: an agenda in virtual time around a control plane.

use crate::{
    agenda::Agenda,
    check::{Meter, Truth, Violation},
    faults::Faults,
    inspect,
    random::SplitMix64,
    settings::Settings,
    site::{Env, Happening, Local, Site, arrivals},
    watch::{Outcome, Watch},
};
use cleave_control::{Control, Deed, Input, Refusal, Request};
use cleave_engine::{
    planner::Planner,
    state::{NoSink, State},
};
use cleave_model::{
    Millis, Name, WorkerId,
    board::Catalogue,
    event::{Batch, Event},
    message::{Message, Order},
    node::Node,
    observation::{Exit, WorkerReport, WorkerState},
    prices::Prices,
};
use std::collections::BTreeMap;

/// A world in virtual time.
pub struct World<P: Planner + Clone, R> {
    settings: Settings,
    planner: P,
    refine: R,
    genesis: Vec<Event>,
    control: Option<Control<P>>,
    journal: Vec<Batch>,
    now: Millis,
    wake: Option<Millis>,
    /// Something was put in since the last close.
    dirty: bool,
    agenda: Agenda<Happening>,
    sites: BTreeMap<Name, Site>,
    durations: BTreeMap<Name, Option<Millis>>,
    /// Requests whose answer was not seen; only kept where the control plane may die.
    unanswered: BTreeMap<u64, Request>,
    asked: u64,
    refused: Vec<Refusal>,
    random: SplitMix64,
    truth: Truth,
    clients: u64,
    watch: Watch,
    meter: Meter,
    boards: Catalogue,
    /// Facts so far.
    facts: u64,
    /// The count of facts at which a decision is next made again.
    inspect_at: Option<u64>,
    /// Nothing goes wrong from then on, whatever the settings say.
    calm: bool,
}

impl<P: Planner + Clone, R: FnMut(&State) -> Prices> World<P, R> {
    /// A world that begins with a genesis at time 0. `refine` answers when prices are asked for.
    pub fn new(planner: P, refine: R, settings: Settings, genesis: Vec<Event>) -> Self {
        let seed = settings.model.as_ref().map_or(0, |model| model.seed);
        let nodes: Vec<Node> = genesis
            .iter()
            .filter_map(|event| match event {
                Event::Node(node) => Some(node.clone()),
                _ => None,
            })
            .collect();
        let mut boards = Catalogue::builtin();
        for event in &genesis {
            if let Event::Board(board) = event {
                let _ = boards.insert(board.clone());
            }
        }
        let control = Control::new(planner.clone(), settings.budget, genesis.clone());
        let inspect_at = settings.inspect_every;
        let mut world = Self {
            settings,
            planner,
            refine,
            genesis,
            control: Some(control),
            journal: Vec::new(),
            now: 0,
            wake: None,
            dirty: true,
            agenda: Agenda::new(),
            sites: BTreeMap::new(),
            durations: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            asked: 0,
            refused: Vec::new(),
            random: SplitMix64::new(seed),
            truth: Truth::default(),
            clients: 0,
            watch: Watch::default(),
            meter: Meter::default(),
            boards,
            facts: 0,
            inspect_at,
            calm: false,
        };
        nodes.iter().for_each(|node| world.node_comes(node));
        world
    }

    /// Lives on through `script`, requests in the order of their times, until everything is
    /// done or `until` is reached. May be called again with more.
    ///
    /// # Errors
    /// The first rule found broken.
    pub fn run(
        &mut self,
        script: impl IntoIterator<Item = (Millis, Request)>,
        until: Millis,
    ) -> Result<(), Violation> {
        let mut script = script.into_iter().peekable();
        loop {
            let written = script.peek().map(|(at, _)| *at);
            let here = self.dirty.then_some(self.now);
            let next = [written, here, self.wake, self.agenda.next_at()]
                .into_iter()
                .flatten()
                .min();
            let Some(next) = next.filter(|next| *next <= until) else {
                return Ok(());
            };
            if written.is_none() && !self.dirty && self.is_settled() {
                return Ok(());
            }
            self.now = self.now.max(next);
            while let Some((_, request)) = script.next_if(|(at, _)| *at <= self.now) {
                self.ask(request);
            }
            while let Some(what) = self.agenda.take(self.now) {
                self.happen(what).map_err(|what| self.violation(what))?;
            }
            if self.dirty || self.wake.is_some_and(|at| at <= self.now) {
                let before = self.control.as_ref().map(|control| control.state().batch());
                self.close().map_err(|what| self.violation(what))?;
                let after = self.control.as_ref().map(|control| control.state().batch());
                if self.settings.check && before != after {
                    self.check()?;
                }
            }
        }
    }

    /// A worker's attempt ends by itself now, if it runs.
    pub fn end(&mut self, worker: &WorkerId, exit: Exit) {
        let state = self.control.as_ref().map(Control::state);
        let Some(lease) = state.and_then(|state| state.lease(worker)) else {
            return;
        };
        let (node, attempt) = (lease.hold.node.clone(), lease.attempt);
        match self
            .sites
            .get(&node)
            .and_then(|site| site.exit(worker, attempt, exit))
        {
            Some(exit) => {
                let born = self.sites[&node].born;
                let exit = Happening::Site(node, born, None, exit);
                self.agenda.enter(self.now, exit);
            }
            None => self.sight(worker.clone(), attempt, WorkerState::Freed(exit)),
        }
    }

    /// Nothing goes wrong from now on.
    pub fn calm(&mut self) {
        self.calm = true;
    }

    /// How many facts there are so far.
    pub fn facts(&self) -> u64 {
        self.facts
    }

    /// No unfinished work, nothing running, nothing left to be told.
    pub fn is_settled(&self) -> bool {
        let quiet = self.sites.values().all(Site::is_quiet);
        let done = |control: &Control<P>| control.state().workloads().next().is_none();
        quiet && self.unanswered.is_empty() && self.control.as_ref().is_some_and(done)
    }

    /// What came of it so far.
    pub fn outcome(&self) -> &Outcome {
        self.watch.outcome()
    }

    /// The control plane, unless it is dead at the moment.
    pub fn control(&self) -> Option<&Control<P>> {
        self.control.as_ref()
    }

    /// Every record so far, if they are kept.
    pub fn journal(&self) -> &[Batch] {
        &self.journal
    }

    /// Requests that were refused, in the order of their answers.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Now.
    pub fn now(&self) -> Millis {
        self.now
    }

    fn violation(&self, what: String) -> Violation {
        Violation {
            now: self.now,
            what,
        }
    }

    fn faults(&self) -> Faults {
        let model = self.settings.model.as_ref().filter(|_| !self.calm);
        model
            .map(|model| model.faults.at(self.now))
            .unwrap_or_default()
    }

    /// Whether records are needed for more than looking on.
    fn journals(&self) -> bool {
        let faults = self.settings.model.as_ref().map(|model| model.faults);
        self.settings.keep_journal || faults.is_some_and(|faults| faults.crash_control > 0)
    }

    fn check(&self) -> Result<(), Violation> {
        let Some(control) = &self.control else {
            return Ok(());
        };
        control
            .state()
            .check()
            .map_err(|broken| self.violation(broken.to_string()))?;
        self.meter
            .broken
            .clone()
            .map_or(Ok(()), |what| Err(self.violation(what)))
    }

    fn ask(&mut self, request: Request) {
        if self.settings.model.is_some() {
            match &request {
                Request::Board(board) => {
                    let _ = self.boards.insert(board.clone());
                }
                Request::Node(node) => self.node_comes(node),
                Request::NodeGone(name) => {
                    if let Some(site) = self.sites.get_mut(name) {
                        site.vanish(&mut self.truth);
                    }
                    self.sites.remove(name);
                }
                Request::Submit(work) => {
                    self.durations.insert(work.name.clone(), work.duration);
                }
                _ => {}
            }
        }
        self.asked += 1;
        let from = self.asked;
        if self.journals() {
            self.unanswered.insert(from, request.clone());
        }
        self.input(Input::Request { from, request });
    }

    fn node_comes(&mut self, node: &Node) {
        let Some(model) = &self.settings.model else {
            return;
        };
        if !self.sites.contains_key(&node.name) {
            self.clients += 1;
            let born = self.clients;
            let site = Site::new(born, node, &self.boards, model);
            self.sites.insert(node.name.clone(), site);
            let restart = Happening::Site(node.name.clone(), born, None, Local::Restart);
            self.agenda.enter(self.now, restart);
        }
    }

    fn input(&mut self, input: Input) {
        if let Some(control) = &mut self.control {
            control.input(input);
            self.dirty = true;
        }
    }

    fn happen(&mut self, what: Happening) -> Result<(), String> {
        match what {
            Happening::Report(report) => self.input(Input::Report(report)),
            Happening::Depart(worker, attempt) => {
                self.sight(worker, attempt, WorkerState::Freed(Exit::Done));
            }
            Happening::Restart => self.restart(),
            Happening::Site(node, born, life, what) => {
                let faults = self.faults();
                let site = self.sites.get_mut(&node);
                let Some(site) = site.filter(|site| site.born == born) else {
                    return Ok(());
                };
                let Some(model) = &self.settings.model else {
                    return Ok(());
                };
                let mut env = Env {
                    now: self.now,
                    model,
                    faults,
                    random: &mut self.random,
                    agenda: &mut self.agenda,
                    truth: &mut self.truth,
                    durations: &self.durations,
                    clients: &mut self.clients,
                };
                site.happen(&mut env, life, what)?;
            }
        }
        Ok(())
    }

    fn sight(&mut self, worker: WorkerId, attempt: u32, state: WorkerState) {
        self.input(Input::Attempt(WorkerReport {
            worker,
            attempt,
            state,
        }));
    }

    /// Closes a batch, commits it and carries its effects out, unless the control plane dies on
    /// the way.
    ///
    /// # Errors
    /// A decision that comes out differently when it is made again.
    fn close(&mut self) -> Result<(), String> {
        self.dirty = false;
        let faults = self.faults();
        let Some(control) = &mut self.control else {
            self.wake = None;
            return Ok(());
        };
        let due = self.inspect_at.is_some_and(|at| at <= self.facts);
        let before = due.then(|| control.state().clone());
        let output = match self.settings.check {
            true => control.close(self.now, &mut self.meter),
            false => control.close(self.now, &mut NoSink),
        };
        self.wake = output.wake;
        if let Some(before) = before {
            let budget = self.settings.budget;
            if inspect::decisions(&self.planner, budget, before, &output.records)? {
                let every = self.settings.inspect_every;
                self.inspect_at = every.map(|every| self.facts + every);
            }
        }
        let dies = self.random.happens(faults.crash_control);
        if dies && self.random.below(3) == 0 {
            self.die();
            return Ok(());
        }
        let last = control.state().batch();
        for batch in &output.records {
            self.facts += batch.events.len() as u64;
            self.watch.follow(batch, control.state());
            self.meter.follow(batch);
        }
        let mut effects = control.durable(last);
        if self.journals() {
            self.journal.extend(output.records);
        }
        if dies {
            effects.truncate(self.random.below(effects.len() as u64 + 1) as usize);
        }
        effects
            .into_iter()
            .for_each(|effect| self.carry_out(effect.what));
        if dies {
            self.die();
        }
        Ok(())
    }

    fn die(&mut self) {
        self.control = None;
        self.wake = None;
        self.dirty = false;
        let back = self.now + 1 + self.random.below(60_000);
        self.agenda.enter(back, Happening::Restart);
    }

    fn restart(&mut self) {
        let (planner, budget) = (self.planner.clone(), self.settings.budget);
        self.meter = Meter::default();
        self.journal
            .iter()
            .for_each(|batch| self.meter.follow(batch));
        self.control = Some(if self.journal.is_empty() {
            Control::new(planner, budget, self.genesis.clone())
        } else {
            let journal = self.journal.iter().cloned();
            Control::restore(planner, budget, journal, &mut self.meter)
                .expect("the world keeps its journal in order")
        });
        self.dirty = true;
        // Whoever got no answer asks again.
        for (from, request) in self.unanswered.clone() {
            self.input(Input::Request { from, request });
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Answer { to, reply } => {
                self.unanswered.remove(&to);
                self.refused.extend(reply.err());
            }
            Deed::Refine { asked_at } => {
                let Some(control) = &mut self.control else {
                    return;
                };
                let prices = (self.refine)(control.state());
                self.dirty |= control.blocked_on_refine().is_some();
                control.input(Input::Refined { asked_at, prices });
            }
            Deed::Send { node, message } if self.settings.model.is_some() => {
                self.send(node, message);
            }
            Deed::Send { message, .. } => self.instantly(message.order),
        }
    }

    fn send(&mut self, node: Name, message: Message) {
        let faults = self.faults();
        let Some(model) = &self.settings.model else {
            return;
        };
        // What is sent to a node that is gone reaches no other of its name.
        let Some(born) = self.sites.get(&node).map(|site| site.born) else {
            return;
        };
        let mut env = Env {
            now: self.now,
            model,
            faults,
            random: &mut self.random,
            agenda: &mut self.agenda,
            truth: &mut self.truth,
            durations: &self.durations,
            clients: &mut self.clients,
        };
        for at in arrivals(&mut env) {
            let what = Local::Message(message.clone());
            self.agenda
                .enter(at, Happening::Site(node.clone(), born, None, what));
        }
    }

    /// An instant node does what it is told.
    fn instantly(&mut self, order: Order) {
        match order {
            Order::Place {
                worker, attempt, ..
            } => {
                let control = self.control.as_ref();
                let work = control.and_then(|c| c.state().workload(worker.workload.as_str()));
                if let Some(duration) = work.and_then(|work| work.spec.duration) {
                    let done = Happening::Depart(worker.clone(), attempt);
                    self.agenda.enter(self.now.saturating_add(duration), done);
                }
                self.sight(worker, attempt, WorkerState::Running);
            }
            Order::Evict {
                worker, attempt, ..
            } => {
                self.sight(worker, attempt, WorkerState::Freed(Exit::Evicted));
            }
            Order::Hello | Order::Forget { .. } => {}
        }
    }
}
