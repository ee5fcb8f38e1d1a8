//! A node's hands without their I/O: they do what a control plane orders, and report what is.
//!
//! Inputs come in through [`Hands::step`], effects come out. Effects are carried out in order, each
//! [`Effect::Persist`] durable before the next effect begins. A crash between any two effects is
//! survived by [`Hands::start`] from the durable table: nothing leaked, doubled, or destroyed while
//! busy. Calls to different GPUs may run at the same time; each GPU has one at a time.

mod jobs;

use crate::{
    gpu::{Call, Reply, overlap},
    procedure::{Patience, Trouble},
    table::{Attempt, AttemptId, Record, Stage, Table},
};
use cleave_model::{
    Millis, Name,
    action::Failure,
    board::Board,
    lease::{Hold, Share, Slice},
    message::{Message, Order},
    observation::{Exit, NodeReport, WorkerReport},
};
use jobs::{Job, JobId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the hands are told about their node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub node: Name,
    /// The board of each GPU, by device index.
    pub boards: Vec<Arc<Board>>,
    /// How often and how long to try.
    pub patience: Patience,
    /// Whether instances that nobody recorded may be destroyed when their place is wanted. Only for
    /// a node that has no other user of MIG.
    pub adopt: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A message came.
    Message(Message),
    /// A GPU's call returned. One that hangs must be answered in the end, by
    /// [`Timeout`](crate::gpu::Error::Timeout), but not before it can have no effect any more.
    Reply(u8, Reply),
    /// A process runs.
    Started(AttemptId),
    /// A process could not be started.
    NotStarted(AttemptId),
    /// A process is gone with all its children; its exit code.
    Exited(AttemptId, i32),
    /// Time passed: at [`Hands::wake_at`].
    Tick,
}

/// What is to be done outside, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make these lines durable, all or none, before the next effect begins.
    Persist(Vec<Record>),
    /// Execute this on a GPU; its reply comes back as [`Input::Reply`].
    Call(u8, Call),
    /// Start a worker's process.
    Start(Start),
    /// Tell a process to leave.
    Signal(AttemptId),
    /// End a process and all its children.
    Kill(AttemptId),
    /// Send this to the control plane.
    Report(NodeReport),
    /// Tell people what is wrong with a GPU: the attempt can't have it, or can't give it back yet;
    /// without an attempt: it can't be read.
    Trouble(Option<AttemptId>, u8, Trouble),
}

/// What a worker's process is started with. Where a slice is a share, the starter sees to what
/// keeps sharers apart, and does not start a worker whose limits would not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Whose process it is.
    pub id: AttemptId,
    /// What it holds.
    pub hold: Hold,
    /// For each slice of the hold the UUID of its instance; `None` for a whole GPU.
    pub uuids: Vec<Option<Name>>,
}

/// The hands of one node.
#[derive(Clone, Debug)]
pub struct Hands {
    settings: Settings,
    table: Table,
    jobs: BTreeMap<JobId, Job>,
    /// By GPU: the job whose call is out.
    lanes: Vec<Option<JobId>>,
    /// When processes that were told to leave are ended.
    kill_at: BTreeMap<AttemptId, Millis>,
    /// GPUs that can't be used.
    sick: BTreeSet<u8>,
    reports: u64,
    /// Whether there is something new to report.
    news: bool,
    out: Vec<Effect>,
}

impl Hands {
    /// Starts, or starts again, from the durable table. `alive` are the processes that exist now;
    /// every order to start or end one that was given before must have taken effect or be void, and
    /// every call to a GPU have returned.
    pub fn start(
        settings: Settings,
        table: Table,
        now: Millis,
        alive: &[AttemptId],
    ) -> (Self, Vec<Effect>) {
        let lanes = vec![None; settings.boards.len()];
        let mut hands = Self {
            settings,
            table,
            jobs: BTreeMap::new(),
            lanes,
            kill_at: BTreeMap::new(),
            sick: BTreeSet::new(),
            reports: 0,
            news: true,
            out: Vec::new(),
        };
        hands.persist(Record::Starts(hands.table.starts + 1));
        for gpu in 0..hands.lanes.len() {
            hands.recover(gpu as u8, now);
        }
        let stages = hands
            .table
            .attempts
            .iter()
            .map(|(id, of)| (id.clone(), of.stage));
        for (id, stage) in stages.collect::<Vec<_>>() {
            match (stage, alive.contains(&id)) {
                (Stage::Starting, true) => hands.enter(&id, Stage::Running),
                (Stage::Running, true) => {}
                // It may not have been told, so its grace begins now.
                (Stage::Stopping { grace_ms }, true) => hands.tell(&id, now, grace_ms),
                (Stage::Starting | Stage::Running, false) => {
                    hands.enter(&id, Stage::Ended(Exit::Lost))
                }
                (Stage::Stopping { .. }, false) => hands.enter(&id, Stage::Ended(Exit::Evicted)),
                (stage, _) => hands.plan(&id, stage),
            }
        }
        for id in alive {
            if !hands
                .table
                .attempts
                .get(id)
                .is_some_and(|of| of.stage.has_process())
            {
                hands.out.push(Effect::Kill(id.clone()));
            }
        }
        let effects = hands.advance(now);
        (hands, effects)
    }

    /// The durable table as it will be once all effects so far are carried out.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// When to step by [`Input::Tick`] at the latest, if nothing happens before.
    pub fn wake_at(&self) -> Option<Millis> {
        let waiting = self
            .jobs
            .iter()
            .filter(|((gpu, _), job)| !job.done && self.idle(*gpu));
        let jobs = waiting.map(|(_, job)| job.not_before);
        jobs.chain(self.kill_at.values().copied()).min()
    }

    /// Takes one input; the effects are to be carried out in order.
    pub fn step(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        match input {
            Input::Message(message) => self.hear(now, message),
            Input::Reply(gpu, reply) => self.replied(now, gpu, reply),
            Input::Started(id) => {
                if self.stage(&id) == Some(Stage::Starting) {
                    self.enter(&id, Stage::Running);
                }
            }
            Input::NotStarted(id) => match self.stage(&id) {
                Some(Stage::Starting) => self.enter(&id, Stage::Failing(Failure::Start)),
                Some(Stage::Stopping { .. }) => self.enter(&id, Stage::Ended(Exit::Evicted)),
                _ => {}
            },
            Input::Exited(id, code) => match (self.stage(&id), code) {
                (Some(Stage::Stopping { .. }), _) => self.enter(&id, Stage::Ended(Exit::Evicted)),
                (Some(Stage::Starting | Stage::Running), 0) => {
                    self.enter(&id, Stage::Ended(Exit::Done))
                }
                (Some(Stage::Starting | Stage::Running), code) => {
                    self.enter(&id, Stage::Ended(Exit::Error(code)));
                }
                _ => {}
            },
            Input::Tick => {}
        }
        self.advance(now)
    }

    /// The whole state of the node under a new sequence number; also a sign of life.
    pub fn report(&mut self) -> NodeReport {
        self.reports += 1;
        self.news = false;
        let worker = |(id, of): (&AttemptId, &Attempt)| WorkerReport {
            worker: id.worker.clone(),
            attempt: id.attempt,
            state: of.stage.reported(),
        };
        NodeReport {
            node: self.settings.node.clone(),
            seq: (self.table.starts, self.reports),
            heard: self.table.heard,
            workers: self.table.attempts.iter().map(worker).collect(),
            sick: self.sick.iter().copied().collect(),
        }
    }

    fn hear(&mut self, now: Millis, message: Message) {
        self.news = true;
        if message.no <= self.table.heard {
            return;
        }
        self.persist(Record::Heard(message.no));
        match message.order {
            Order::Hello => {}
            Order::Place {
                worker,
                attempt,
                hold,
            } => {
                let id = AttemptId { worker, attempt };
                if !self.table.attempts.contains_key(&id) {
                    let acceptable = self.is_next(&id) && self.has_room(&hold);
                    let refused = Stage::Failed(Failure::Stale);
                    let stage = if acceptable {
                        Stage::Preparing
                    } else {
                        refused
                    };
                    self.put(&id, Attempt { hold, stage });
                }
            }
            Order::Evict {
                worker,
                attempt,
                grace_ms,
            } => {
                let id = AttemptId { worker, attempt };
                match self.stage(&id) {
                    None => {
                        let node = self.settings.node.clone();
                        let hold = Hold {
                            node,
                            cpu_milli: 0,
                            memory_bytes: 0,
                            slices: Vec::new(),
                        };
                        self.put(
                            &id,
                            Attempt {
                                hold,
                                stage: Stage::Freed(Exit::Evicted),
                            },
                        );
                    }
                    Some(Stage::Preparing) => self.enter(&id, Stage::Ended(Exit::Evicted)),
                    Some(Stage::Starting | Stage::Running) => {
                        self.enter(&id, Stage::Stopping { grace_ms });
                        self.tell(&id, now, grace_ms);
                    }
                    Some(Stage::Stopping { grace_ms: before }) if grace_ms < before => {
                        self.enter(&id, Stage::Stopping { grace_ms });
                        let at = now.saturating_add(grace_ms);
                        self.kill_at
                            .entry(id)
                            .and_modify(|kill| *kill = at.min(*kill));
                    }
                    _ => {}
                }
            }
            Order::Forget { worker, attempt } => {
                let id = AttemptId { worker, attempt };
                if self.stage(&id).is_some_and(Stage::is_over) {
                    self.persist(Record::Attempt(id, None));
                }
            }
        }
    }

    /// Whether an attempt is newer than all of its worker, and those are over.
    fn is_next(&self, id: &AttemptId) -> bool {
        let of_worker = self
            .table
            .attempts
            .iter()
            .filter(|(other, _)| other.worker == id.worker);
        let mut earlier =
            of_worker.map(|(other, of)| other.attempt < id.attempt && of.stage.is_over());
        earlier.all(|fine| fine)
    }

    /// Whether the node has such slices and nobody holds them.
    fn has_room(&self, hold: &Hold) -> bool {
        let board = |slice: &Slice| self.settings.boards.get(usize::from(slice.gpu));
        let exists = |slice: &Slice| match (board(slice), slice.instance) {
            (Some(board), Some(i)) => {
                let profile = board.profiles.get(usize::from(i.profile.0));
                profile.is_some_and(|profile| profile.starts.contains(&i.start))
            }
            (board, None) => board.is_some(),
            (None, _) => false,
        };
        let clash = |a: &Slice, b: &Slice| match (a.instance, b.instance) {
            _ if a.gpu != b.gpu => false,
            (i, j) if i == j => {
                let by = |slice: &Slice| slice.share.map(|share: Share| share.by);
                by(a).is_none() || by(a) != by(b)
            }
            (Some(i), Some(j)) => board(a).is_some_and(|board| overlap(board, i, j)),
            _ => true,
        };
        let mut slices = hold.slices.iter().enumerate();
        hold.node == self.settings.node
            && hold.slices.iter().all(exists)
            && slices.all(|(n, slice)| {
                let held = self.table.held().map(|(_, _, held)| held);
                !hold.slices[..n]
                    .iter()
                    .chain(held)
                    .any(|other| clash(slice, other))
            })
    }

    fn stage(&self, id: &AttemptId) -> Option<Stage> {
        self.table.attempts.get(id).map(|of| of.stage)
    }

    fn enter(&mut self, id: &AttemptId, stage: Stage) {
        let hold = self.table.attempts[id].hold.clone();
        self.put(id, Attempt { hold, stage });
    }

    fn put(&mut self, id: &AttemptId, attempt: Attempt) {
        let stage = attempt.stage;
        self.persist(Record::Attempt(id.clone(), Some(attempt)));
        self.plan(id, stage);
        self.news = true;
    }

    /// Neighbouring lines become durable together.
    fn persist(&mut self, record: Record) {
        self.table.apply(record.clone());
        match self.out.last_mut() {
            Some(Effect::Persist(records)) => records.push(record),
            _ => self.out.push(Effect::Persist(vec![record])),
        }
    }

    fn tell(&mut self, id: &AttemptId, now: Millis, grace_ms: Millis) {
        self.out.push(Effect::Signal(id.clone()));
        self.kill_at
            .insert(id.clone(), now.saturating_add(grace_ms));
    }

    /// Does all that can be done now.
    fn advance(&mut self, now: Millis) -> Vec<Effect> {
        for (id, at) in &mut self.kill_at {
            if *at <= now {
                self.out.push(Effect::Kill(id.clone()));
                *at = now.saturating_add(self.settings.patience.longest_ms.max(1));
            }
        }
        loop {
            let ready =
                |(id, job): &(&JobId, &Job)| !job.done && job.not_before <= now && self.idle(id.0);
            if let Some(id) = self.jobs.iter().find(ready).map(|(id, _)| id.clone()) {
                self.run(now, &id, None);
                continue;
            }
            let working = |id: &AttemptId| {
                self.jobs
                    .iter()
                    .any(|((_, of), job)| of.as_ref() == Some(id) && !job.done)
            };
            let settled = self.table.attempts.iter().find_map(|(id, of)| {
                let next = match of.stage {
                    Stage::Preparing => Stage::Starting,
                    Stage::Ended(exit) => Stage::Freed(exit),
                    Stage::Failing(failure) => Stage::Failed(failure),
                    _ => return None,
                };
                (!working(id)).then(|| (id.clone(), next))
            });
            let Some((id, next)) = settled else { break };
            self.enter(&id, next);
            if next == Stage::Starting {
                let hold = self.table.attempts[&id].hold.clone();
                let uuids = hold.slices.iter().map(|slice| self.uuid(slice)).collect();
                self.out.push(Effect::Start(Start { id, hold, uuids }));
            }
        }
        if self.news {
            let report = self.report();
            self.out.push(Effect::Report(report));
        }
        std::mem::take(&mut self.out)
    }

    fn uuid(&self, slice: &Slice) -> Option<Name> {
        let instance = slice.instance?;
        self.table
            .cuts
            .get(&(slice.gpu, instance.start))
            .and_then(|cut| cut.uuid.clone())
    }
}
