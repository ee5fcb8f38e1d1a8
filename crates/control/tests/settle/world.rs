//! A world of a control plane, hands and a network that loses, repeats, delays and reorders.

use crate::hands::{AttemptId, Hands};
use cleave_control::{Control, Deed, Input, Request};
use cleave_engine::{
    planner::{FirstFit, Walk},
    state::{NoSink, State, place_name},
};
use cleave_model::{
    Millis, Name, WorkerId,
    ask::{Ask, Constraints, Gpus, Isolation, Part},
    event::{Batch, Event},
    message::Message,
    node::{Health, Node},
    observation::{ActionResult, NodeReport, WorkerState},
    plan::Budget,
    policy::Policy,
    queue::{Amounts, Queue},
    workload::{Class, Group, Workload},
};
use std::collections::{BTreeMap, BTreeSet};

pub type Planner = Walk<FirstFit>;

pub fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).unwrap()
}

pub fn queue() -> Queue {
    Queue {
        name: name("team"),
        parent: None,
        quota: Amounts::default(),
        limit: Amounts::default(),
        weight: 1,
        priority: 0,
    }
}

pub fn node(called: &str) -> Node {
    Node {
        name: name(called),
        cpu_milli: 4_000,
        memory_bytes: 1 << 30,
        pods: 8,
        gpus: vec![name("A100-40GB")],
        links: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        pool: name("rack"),
        price_micros: None,
    }
}

/// The nth workload: gangs and single workers, on CPUs, on slices and on whole GPUs.
pub fn workload(n: u32) -> Workload {
    let part = match n % 4 {
        0 => None,
        1 => Some(Part::Whole),
        2 => Some(Part::Profile(name("1g.5gb"))),
        _ => Some(Part::Profile(name("3g.20gb"))),
    };
    let gpus = part.map(|part| Gpus {
        count: 1,
        part,
        isolation: Isolation::Hard,
        models: Vec::new(),
        graphics: false,
    });
    let workers = 1 + n % 3;
    let ask = Ask {
        cpu_milli: 1_000,
        memory_bytes: 1 << 20,
        gpus,
        limits: Constraints::default(),
    };
    Workload {
        name: name(format!("w{n}")),
        queue: name("team"),
        class: Class::Batch,
        priority: 0,
        groups: vec![Group {
            name: name("main"),
            workers,
            min: 1 + n % 2 % workers,
            ask,
        }],
        submitted: 0,
        duration: None,
        retries: 0,
    }
}

pub fn genesis(refine_every: u64) -> Vec<Event> {
    vec![
        Event::Policy(Policy {
            refine_every,
            refine_lag: 3,
            ..Policy::default()
        }),
        Event::Queue(queue()),
        Event::Node(node("n0")),
        Event::Node(node("n1")),
    ]
}

pub struct World {
    pub control: Control<Planner>,
    pub journal: Vec<Batch>,
    pub hands: Vec<Hands>,
    now: Millis,
    messages: Vec<(Name, Message)>,
    reports: Vec<NodeReport>,
    ran: BTreeSet<AttemptId>,
    submitted: u32,
    unanswered: BTreeMap<u64, Request>,
}

pub fn planner() -> Planner {
    Walk::new(FirstFit::default())
}

pub const BUDGET: Budget = Budget { steps: 4 };

impl World {
    pub fn new() -> Self {
        Self {
            control: Control::new(planner(), BUDGET, genesis(0)),
            journal: Vec::new(),
            hands: vec![Hands::new("n0"), Hands::new("n1")],
            now: 1_000,
            messages: Vec::new(),
            reports: Vec::new(),
            ran: BTreeSet::new(),
            submitted: 0,
            unanswered: BTreeMap::new(),
        }
    }

    /// Does one thing of many, chosen by `code`.
    pub fn step(&mut self, code: u16) {
        let (what, which) = (code % 32, usize::from(code / 32));
        match what {
            0..=4 => {
                let message = pick(&mut self.messages, which);
                self.deliver(message);
            }
            5 => {
                let message = self
                    .messages
                    .get(which % self.messages.len().max(1))
                    .cloned();
                self.deliver(message);
            }
            6 => drop(pick(&mut self.messages, which)),
            7..=11 => {
                let report = pick(&mut self.reports, which);
                report
                    .into_iter()
                    .for_each(|report| self.control.input(Input::Report(report)));
            }
            12 => {
                let report = self.reports.get(which % self.reports.len().max(1)).cloned();
                report
                    .into_iter()
                    .for_each(|report| self.control.input(Input::Report(report)));
            }
            13 => drop(pick(&mut self.reports, which)),
            14..=18 => self.progress(which % 2, which / 2, which / 64 % 5),
            19..=22 => self.close(usize::MAX, usize::MAX),
            23 => self.crash(0, 0),
            24 => self.crash(usize::MAX, which % 4),
            25 => self.now += [10, 1_000, 20_000, 400_000][which % 4],
            26 => {
                let hands = &mut self.hands[which % 2];
                if which % 8 < 2 {
                    hands.restart();
                }
                let report = hands.report();
                self.reports.push(report);
            }
            27 | 28 => {
                self.submitted += 1;
                self.ask(Request::Submit(workload(self.submitted)));
            }
            29 => {
                let victim = 1 + which as u32 % self.submitted.max(1);
                self.ask(Request::Cancel(name(format!("w{victim}"))));
            }
            30 => {
                let health = [Health::Cordoned, Health::Ready, Health::Reclaiming(0)][which % 3];
                self.ask(Request::NodeHealth(
                    name(format!("n{}", which / 3 % 2)),
                    health,
                ));
            }
            _ => self.hint(which),
        }
    }

    fn ask(&mut self, request: Request) {
        let from = self
            .unanswered
            .last_key_value()
            .map_or(0, |(last, _)| last + 1);
        self.unanswered.insert(from, request.clone());
        self.control.input(Input::Request { from, request });
    }

    fn deliver(&mut self, message: Option<(Name, Message)>) {
        let Some((node, message)) = message else {
            return;
        };
        let hands = self
            .hands
            .iter_mut()
            .find(|hands| hands.node == node)
            .unwrap();
        let report = hands.hear(message);
        self.reports.push(report);
    }

    fn progress(&mut self, node: usize, which: usize, luck: usize) {
        if let Some(id) = self.hands[node].progress(which, luck) {
            assert!(self.ran.insert(id.clone()), "{id:?} ran twice");
        }
        let report = self.hands[node].report();
        self.reports.push(report);
        self.check_single();
    }

    /// The early answer of a placement, as true as the table.
    fn hint(&mut self, which: usize) {
        let hands = &self.hands[which % 2];
        let Some(((worker, attempt), state)) =
            hands.table.iter().nth(which / 2 % hands.table.len().max(1))
        else {
            return;
        };
        let outcome = match state {
            WorkerState::Running => Ok(()),
            WorkerState::Failed(why) => Err(*why),
            _ => return,
        };
        let action = place_name(worker, *attempt);
        self.control
            .input(Input::Result(ActionResult { action, outcome }));
    }

    /// Closes a batch, commits the first `commit` records and carries out the first `act`
    /// effects; crashes are made of this.
    fn close(&mut self, commit: usize, act: usize) {
        let output = self.control.close(self.now, &mut NoSink);
        self.control.state().check().expect("the rules hold");
        if let Some(wake) = output.wake {
            assert!(wake >= self.control.state().now(), "a wake in the past");
        }
        self.journal.extend(output.records.into_iter().take(commit));
        let last = self.journal.last().map_or(0, |batch| batch.number);
        for effect in self.control.durable(last).into_iter().take(act) {
            assert!(effect.after <= last);
            match effect.what {
                Deed::Send { node, message } => self.messages.push((node, message)),
                Deed::Answer { to, reply } => {
                    let request = self.unanswered.remove(&to);
                    if let (Err(why), Some(Request::Submit(work))) = (&reply, request) {
                        panic!("{} was refused: {why}", work.name);
                    }
                }
                Deed::Refine { .. } => panic!("nobody prices here"),
            }
        }
    }

    /// Dies somewhere in a close and starts again from what is durable.
    fn crash(&mut self, commit: usize, act: usize) {
        self.close(commit, act);
        let journal = self.journal.iter().cloned();
        if self.journal.is_empty() {
            self.control = Control::new(planner(), BUDGET, genesis(0));
        } else {
            self.control = Control::restore(planner(), BUDGET, journal, &mut NoSink).unwrap();
        }
        // Whoever got no answer asks again.
        for (from, request) in self.unanswered.clone() {
            self.control.input(Input::Request { from, request });
        }
    }

    /// At most one attempt of a worker is live anywhere.
    fn check_single(&self) {
        let live = |state: &WorkerState| {
            matches!(
                state,
                WorkerState::Preparing | WorkerState::Running | WorkerState::Stopping
            )
        };
        let all = self.hands.iter().flat_map(|hands| &hands.table);
        let mut seen: BTreeSet<&WorkerId> = BTreeSet::new();
        for ((worker, attempt), _) in all.filter(|(_, state)| live(state)) {
            assert!(
                seen.insert(worker),
                "{worker} lives twice, also as attempt {attempt}"
            );
        }
    }

    /// The network heals, the devices behave: everything must come to its end.
    pub fn settle(&mut self) {
        for round in 0..400 {
            // Late reports of failures may withhold a GPU yet.
            for node in ["n0", "n1"].into_iter().filter(|_| round % 20 == 0) {
                self.ask(Request::NodeHealth(name(node), Health::Ready));
                self.ask(Request::Gpu(name(node), 0, false));
            }
            self.now += 5_000;
            for message in std::mem::take(&mut self.messages) {
                self.deliver(Some(message));
            }
            for at in 0..2 {
                for which in 0..self.hands[at].table.len() {
                    self.progress(at, which, 0);
                }
                let report = self.hands[at].report();
                self.reports.push(report);
            }
            for report in std::mem::take(&mut self.reports) {
                self.control.input(Input::Report(report));
            }
            self.close(usize::MAX, usize::MAX);
            let idle = self.control.state().workloads().next().is_none();
            if idle && self.hands.iter().all(|hands| hands.table.is_empty()) {
                break;
            }
        }
        let state = self.control.state();
        let left: Vec<_> = state.workloads().map(|(name, _)| name).collect();
        assert!(left.is_empty(), "not finished: {left:?}");
        let open: Vec<_> = state.open_actions().map(|open| &open.action.name).collect();
        assert!(open.is_empty(), "open: {open:?}");
        for hands in &self.hands {
            assert!(hands.table.is_empty(), "not forgotten: {:?}", hands.table);
        }
        let quiet = self.journal.len();
        self.close(usize::MAX, usize::MAX);
        assert_eq!(self.journal.len(), quiet, "a settled world writes nothing");

        let mut replayed = State::new();
        self.journal
            .iter()
            .for_each(|batch| replayed.apply(batch, &mut NoSink));
        assert_eq!(replayed.canonical(), self.control.state().canonical());
    }
}

fn pick<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    let at = which.checked_rem(from.len())?;
    Some(from.remove(at))
}
