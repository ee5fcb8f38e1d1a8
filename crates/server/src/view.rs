//! A follower: a second state on a thread of its own, which answers questions and writes states
//! out, so that the loop never waits for either.

use crate::{
    api::{Detail, Fleet, Jobs, Pace, Phase, Row, Status},
    caller::Caller,
    core::now,
    history,
    journal::Ticket,
    rows,
};
use cleave_engine::state::{NoSink, State};
use cleave_model::{
    Name,
    event::{Batch, Event},
    workload::Workload,
};
use cleave_wire::{
    agent::{Note, Welcome},
    job::Job,
};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};
use tokio::sync::watch;

/// Decisions whose time is remembered.
const DECISIONS: usize = 10_000;
/// A state is written out after so many records.
const WRITE_EVERY: u64 = 10_000;
/// Records, jobs and attempts that are over are kept for so long at least.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Something for the follower.
pub enum Heard {
    /// These records are durable; jobs that they opened, what agents said meanwhile, how long
    /// it took to decide.
    Folded {
        records: Vec<Batch>,
        opened: BTreeMap<Name, Ticket>,
        notes: Vec<Note>,
        took: Duration,
    },
    /// An agent is reached.
    Came(usize, Box<Welcome>),
    /// An agent is not reached; perhaps why.
    Gone(usize, Option<String>),
    /// Somebody wants to know something.
    Question(Box<dyn FnOnce(&mut View) + Send>),
}

/// What is known of an agent.
#[derive(Clone, Debug, Default)]
pub struct Agent {
    pub path: PathBuf,
    pub welcome: Option<Welcome>,
    pub connected: bool,
    pub trouble: Option<String>,
}

/// The follower.
pub struct View {
    pub state: State,
    pub db: Connection,
    pub cards: BTreeMap<Name, Card>,
    pub agents: Vec<Agent>,
    pub directory: PathBuf,
    written: u64,
    /// How long the last decisions took, microseconds.
    took_us: VecDeque<u64>,
    seen: watch::Sender<u64>,
}

/// What is remembered of a job that is not over beside its workload.
#[derive(Clone, Debug)]
pub struct Card {
    pub ticket: Ticket,
    pub started: Option<u64>,
}

impl View {
    /// A follower of a state whose jobs are these.
    pub fn new(
        state: State,
        db: Connection,
        tickets: BTreeMap<Name, Ticket>,
        agents: Vec<PathBuf>,
        directory: PathBuf,
        seen: watch::Sender<u64>,
    ) -> Self {
        let card = |(name, ticket): (Name, Ticket)| {
            let latest = history::latest(&db, name.as_str()).ok().flatten();
            let started = latest.and_then(|past| past.times.1).map(i64::unsigned_abs);
            (name, Card { ticket, started })
        };
        let cards = tickets.into_iter().map(card).collect();
        let agent = |path| Agent {
            path,
            ..Agent::default()
        };
        Self {
            written: state.batch(),
            state,
            db,
            cards,
            agents: agents.into_iter().map(agent).collect(),
            directory,
            took_us: VecDeque::new(),
            seen,
        }
    }

    /// Follows until the loop is gone.
    pub fn run(mut self, heard: &Receiver<Heard>) {
        while let Ok(heard) = heard.recv() {
            match heard {
                Heard::Folded {
                    records,
                    opened,
                    notes,
                    took,
                } => {
                    self.took_us.truncate(DECISIONS - 1);
                    self.took_us.push_front(took.as_micros() as u64);
                    self.fold(&records, opened, &notes);
                }
                Heard::Came(agent, welcome) => {
                    if let Some(agent) = self.agents.get_mut(agent) {
                        agent.connected = true;
                        agent.trouble = None;
                        agent.welcome = Some(*welcome);
                    }
                }
                Heard::Gone(agent, why) => {
                    if let Some(agent) = self.agents.get_mut(agent) {
                        agent.connected = false;
                        agent.trouble = why;
                    }
                }
                Heard::Question(question) => question(&mut self),
            }
        }
    }

    fn fold(&mut self, records: &[Batch], opened: BTreeMap<Name, Ticket>, notes: &[Note]) {
        let card = |(name, ticket)| {
            let started = None;
            (name, Card { ticket, started })
        };
        for (name, card) in opened.into_iter().map(card) {
            self.cards.entry(name).or_insert(card);
        }
        let mut touched = BTreeSet::new();
        for batch in records {
            self.state.apply(batch, &mut NoSink);
            for event in &batch.events {
                match event {
                    Event::Started(worker, _) => {
                        if let Some(card) = self.cards.get_mut(&worker.workload) {
                            card.started.get_or_insert(batch.now);
                        }
                    }
                    Event::Freed(worker, ..) | Event::Failed(worker, ..) => {
                        touched.insert(&worker.workload);
                    }
                    Event::Cancel(name) => {
                        touched.insert(name);
                    }
                    _ => {}
                }
            }
        }
        for name in touched {
            if self.state.workload(name.as_str()).is_none() {
                self.cards.remove(name);
            }
        }
        for note in notes {
            if let Some(id) = &note.attempt {
                // A note is a courtesy: one that can't be kept is not worth stopping for.
                let _ = history::note(&self.db, &id.worker, id.attempt, &note.text);
            }
        }
        let _ = self.seen.send_replace(self.state.batch());
        if self.state.batch() >= self.written + WRITE_EVERY {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        self.written = self.state.batch();
        let genesis = Batch {
            number: self.state.batch(),
            now: self.state.now(),
            events: self.state.genesis(),
        };
        let keep_from = now().saturating_sub(KEEP.as_millis() as u64);
        // The records are still there: a state that could not be written costs time at the next
        // start, nothing else.
        let _ = history::write_genesis(&mut self.db, &genesis, keep_from);
    }

    /// Jobs that are not over in the order in which they are served, then the last ones that are.
    pub fn jobs(&self, over: u32, limit: usize) -> Result<Jobs, rusqlite::Error> {
        let mut counts = BTreeMap::new();
        let mut works: Vec<_> = self
            .state
            .workloads()
            .map(|(name, work)| (rows::phase(work), work, name))
            .collect();
        for (phase, ..) in &works {
            *counts.entry(*phase).or_default() += 1;
        }
        works.sort_by_key(|(phase, work, name)| {
            let waiting = *phase == Phase::Waiting;
            let turn = (-i64::from(work.spec.priority), work.spec.submitted);
            (waiting, turn, (*name).clone())
        });
        let works = works.into_iter().take(limit);
        let mut jobs: Vec<Row> = works.map(|(_, work, name)| self.row(work, name)).collect();
        for past in history::finished(&self.db, over)? {
            jobs.push(rows::past(&past));
        }
        Ok(Jobs {
            jobs,
            counts,
            now: now(),
        })
    }

    fn row(&self, work: &cleave_engine::state::Work, name: &Name) -> Row {
        rows::row(&self.state, work, self.cards.get(name))
    }

    /// One job, as everybody sees it.
    pub fn one(&self, name: &str) -> Result<Option<Row>, rusqlite::Error> {
        if let Some((name, work)) = self.find(name) {
            return Ok(Some(self.row(work, name)));
        }
        let past = history::latest(&self.db, name)?;
        Ok(past.map(|past| rows::past(&past)))
    }

    fn find(&self, name: &str) -> Option<(&Name, &cleave_engine::state::Work)> {
        let work = self.state.workload(name)?;
        Some((work.name(), work))
    }

    /// One job in full, as far as the caller may see it.
    pub fn detail(&self, name: &str, caller: &Caller) -> Result<Option<Detail>, rusqlite::Error> {
        let Some(past) = history::latest(&self.db, name)? else {
            return Ok(None);
        };
        let (row, why) = match self.find(name) {
            Some((name, work)) => {
                let row = self.row(work, name);
                let why = rows::why(self, work, &row);
                (row, why)
            }
            None => {
                let row = rows::past(&past);
                let why = rows::ended(&row);
                (row, why)
            }
        };
        let run = match caller.may_touch(past.ticket.uid) {
            true => Some(Arc::unwrap_or_clone(
                history::run_of(&self.db, past.ticket.id)?.run,
            )),
            false => None,
        };
        Ok(Some(Detail {
            row,
            why,
            directory: run.as_ref().map(|run| run.directory.clone()),
            command: run.map(|run| run.argv),
            attempts: history::attempts(&self.db, past.ticket.id)?,
            now: now(),
        }))
    }

    /// The job of that name, whose it is, and its attempts.
    pub fn whose(
        &self,
        name: &str,
    ) -> Result<Option<(Ticket, Job, Vec<crate::api::Attempt>)>, rusqlite::Error> {
        let Some(past) = history::latest(&self.db, name)? else {
            return Ok(None);
        };
        let id = past.ticket.id;
        let (job, attempts) = (
            history::run_of(&self.db, id)?,
            history::attempts(&self.db, id)?,
        );
        Ok(Some((past.ticket, job, attempts)))
    }

    /// Where the agent of a node is.
    pub fn agent_of(&self, node: &str) -> Option<PathBuf> {
        let of = |agent: &&Agent| {
            let welcome = agent.welcome.as_ref();
            welcome.is_some_and(|welcome| welcome.node.name.as_str() == node)
        };
        self.agents.iter().find(of).map(|agent| agent.path.clone())
    }

    /// All GPUs.
    pub fn fleet(&self) -> Fleet {
        rows::fleet(self)
    }

    /// The names of the queues.
    pub fn queues(&self) -> Vec<Name> {
        self.state.queues().keys().cloned().collect()
    }

    fn pace(&self) -> Pace {
        let mut all: Vec<u64> = self.took_us.iter().copied().collect();
        all.sort_unstable();
        let part = |percent: usize| all.get((all.len() * percent).div_ceil(100).max(1) - 1);
        let us = |percent| part(percent).copied().unwrap_or(0);
        Pace {
            count: all.len() as u64,
            p50_us: us(50),
            p99_us: us(99),
            max_us: us(100),
        }
    }

    /// The server, as the caller sees it.
    pub fn status(&self, caller: &Caller) -> Status {
        let name = |agent: &Agent| match &agent.welcome {
            Some(welcome) => welcome.node.name.to_string(),
            None => agent.path.display().to_string(),
        };
        let welcomes = || {
            self.agents
                .iter()
                .filter_map(|agent| agent.welcome.as_ref())
        };
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            simulated: welcomes().any(|welcome| welcome.simulated),
            directory: self.directory.display().to_string(),
            record: self.state.batch(),
            jobs: self.state.workloads().count() as u64,
            agents: self
                .agents
                .iter()
                .map(|agent| (name(agent), agent.connected))
                .collect(),
            decisions: self.pace(),
            admin: caller.admin,
            now: now(),
        }
    }
}

/// A workload that was written as JSON.
pub fn workload(text: &str) -> Option<Workload> {
    serde_json::from_str(text).ok()
}
