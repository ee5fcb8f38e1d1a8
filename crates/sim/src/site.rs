//! A modelled node: hands with their durable table, GPUs, and the processes of workers.

use crate::{agenda::Agenda, check::Truth, faults::Faults, random::SplitMix64, settings::Model};
use cleave_device::{
    gpu::{Fault, Gpu, Reply},
    hands::{Effect, Hands, Input, Settings, Start},
    procedure::Patience,
    table::{AttemptId, Table},
};
use cleave_model::{
    Millis, Name, WorkerId,
    board::{Board, Catalogue},
    message::Message,
    node::Node,
    observation::{Exit, NodeReport},
};
use std::{collections::BTreeMap, sync::Arc};

/// What happens on a node.
#[derive(Debug)]
pub enum Local {
    /// A message arrives.
    Message(Message),
    /// A call returns.
    Reply(u8, Reply),
    /// A process has been set up.
    Begin(Start),
    /// A process ends, unless it did before.
    Exit(AttemptId, u64, i32),
    /// Somebody lets go of a GPU.
    Detach(u8, u64),
    /// Time that the hands asked for has passed.
    Tick,
    /// The hands tell that they are there.
    Heartbeat,
    /// The hands start again.
    Restart,
}

/// Something on the agenda of the world.
#[derive(Debug)]
pub enum Happening {
    /// On a node that was born so (a name may be used again), in a life of its hands; what
    /// outlives the hands has none.
    Site(Name, u64, Option<u64>, Local),
    /// A report arrives at the control plane.
    Report(NodeReport),
    /// An instant node's worker is done.
    Depart(WorkerId, u32),
    /// The control plane starts again.
    Restart,
}

/// What a node needs of its world.
pub struct Env<'a> {
    pub now: Millis,
    pub model: &'a Model,
    pub faults: Faults,
    pub random: &'a mut SplitMix64,
    pub agenda: &'a mut Agenda<Happening>,
    pub truth: &'a mut Truth,
    pub durations: &'a BTreeMap<Name, Option<Millis>>,
    pub clients: &'a mut u64,
}

/// A modelled node.
#[derive(Debug)]
pub struct Site {
    /// Tells it from others that had its name before.
    pub born: u64,
    settings: Settings,
    hands: Option<Hands>,
    table: Table,
    gpus: Vec<Gpu>,
    processes: BTreeMap<AttemptId, Process>,
    /// Counts the lives of the hands.
    life: u64,
    /// When the last call to a GPU has returned.
    busy_until: Millis,
    tick_at: Option<Millis>,
}

#[derive(Debug)]
struct Process {
    serial: u64,
    clients: Vec<(u8, u64)>,
}

impl Site {
    /// A node with its hands about to start. GPUs of unknown boards do not exist here.
    pub fn new(born: u64, node: &Node, boards: &Catalogue, model: &Model) -> Self {
        let found = node
            .gpus
            .iter()
            .map_while(|name| boards.find(name.as_str()).ok());
        let boards: Vec<Arc<Board>> = found.map(|id| Arc::clone(boards.board(id))).collect();
        let gpu = |(ix, board): (usize, &Arc<Board>)| {
            let serial = Name::new(format!("{}-{ix}", node.name)).unwrap_or(node.name.clone());
            Gpu::new(Arc::clone(board), serial, model.latencies, true)
        };
        let gpus = boards.iter().enumerate().map(gpu).collect();
        let (patience, name) = (Patience::default(), node.name.clone());
        Self {
            born,
            settings: Settings {
                node: name,
                boards,
                patience,
                adopt: true,
            },
            hands: None,
            table: Table::default(),
            gpus,
            processes: BTreeMap::new(),
            life: 0,
            busy_until: 0,
            tick_at: None,
        }
    }

    /// Nothing runs here and nothing is left to be told.
    pub fn is_quiet(&self) -> bool {
        self.processes.is_empty() && self.table.attempts.is_empty() && self.hands.is_some()
    }

    /// The node vanishes with everything on it.
    pub fn vanish(&mut self, truth: &mut Truth) {
        self.processes.keys().for_each(|id| truth.end(&id.worker));
        self.processes.clear();
        self.hands = None;
        self.life += 1;
    }

    /// The end of a process that runs here, as something that happens.
    pub fn exit(&self, worker: &WorkerId, attempt: u32, exit: Exit) -> Option<Local> {
        let mut running = self.processes.iter();
        let (id, process) =
            running.find(|(id, _)| id.worker == *worker && id.attempt == attempt)?;
        let code = if let Exit::Error(code) = exit {
            code
        } else {
            0
        };
        Some(Local::Exit(id.clone(), process.serial, code))
    }

    /// Something happens.
    ///
    /// # Errors
    /// A rule is broken by what really runs.
    pub fn happen(
        &mut self,
        env: &mut Env<'_>,
        life: Option<u64>,
        what: Local,
    ) -> Result<(), String> {
        if life.is_some_and(|life| life != self.life) {
            return Ok(());
        }
        let input = match what {
            Local::Message(message) => Input::Message(message),
            Local::Reply(gpu, reply) => Input::Reply(gpu, reply),
            Local::Begin(start) => self.begin(env, start)?,
            Local::Exit(id, serial, code) => {
                match self.processes.get(&id) {
                    Some(process) if process.serial == serial => {}
                    _ => return Ok(()),
                }
                let process = self.processes.remove(&id);
                for (gpu, client) in process.into_iter().flat_map(|process| process.clients) {
                    self.gpus[usize::from(gpu)].detach(client);
                }
                env.truth.end(&id.worker);
                Input::Exited(id, code)
            }
            Local::Detach(gpu, client) => {
                self.gpus[usize::from(gpu)].detach(client);
                return Ok(());
            }
            Local::Tick => Input::Tick,
            Local::Heartbeat => {
                let report = self.hands.as_mut().map(Hands::report);
                report
                    .into_iter()
                    .for_each(|report| self.report(env, report));
                self.enter(env, env.model.heartbeat_ms, Local::Heartbeat);
                return Ok(());
            }
            Local::Restart => {
                let alive: Vec<AttemptId> = self.processes.keys().cloned().collect();
                let (settings, table) = (self.settings.clone(), self.table.clone());
                let (hands, effects) = Hands::start(settings, table, env.now, &alive);
                self.hands = Some(hands);
                self.tick_at = None;
                self.enter(env, env.model.heartbeat_ms, Local::Heartbeat);
                self.carry_out(env, effects);
                return Ok(());
            }
        };
        if let Some(hands) = &mut self.hands {
            let effects = hands.step(env.now, input);
            self.carry_out(env, effects);
        }
        Ok(())
    }

    /// A process is there, if it can hold what it was given.
    fn begin(&mut self, env: &mut Env<'_>, start: Start) -> Result<Input, String> {
        let Start { id, hold, uuids } = start;
        let mut clients = Vec::new();
        let mut fine = !env.random.happens(env.faults.start);
        for (slice, uuid) in hold.slices.iter().zip(&uuids) {
            *env.clients += 1;
            let gpu = self.gpus.get_mut(usize::from(slice.gpu));
            fine &= gpu.is_some_and(|gpu| gpu.attach(*env.clients, uuid.as_ref()).is_ok());
            clients.push((slice.gpu, *env.clients));
        }
        if !fine {
            for (gpu, client) in clients {
                self.gpus
                    .get_mut(usize::from(gpu))
                    .into_iter()
                    .for_each(|g| g.detach(client));
            }
            return Ok(Input::NotStarted(id));
        }
        let board = |gpu: u8| self.settings.boards.get(usize::from(gpu)).cloned();
        env.truth.begin(&id.worker, id.attempt, &hold, board)?;
        *env.clients += 1;
        let serial = *env.clients;
        if let Some(Some(duration)) = env.durations.get(&id.worker.workload) {
            let code = i32::from(env.random.happens(env.faults.fail));
            self.outlast(env, *duration, Local::Exit(id.clone(), serial, code));
        }
        self.processes
            .insert(id.clone(), Process { serial, clients });
        Ok(Input::Started(id))
    }

    /// Carries effects out in order, unless the hands die on the way.
    fn carry_out(&mut self, env: &mut Env<'_>, effects: Vec<Effect>) {
        for effect in effects {
            if env.random.happens(env.faults.crash_hands) {
                self.hands = None;
                self.life += 1;
                // A call that is out can't be called back.
                let back = self.busy_until.max(env.now) - env.now + 1 + env.random.below(20_000);
                self.outlast(env, back, Local::Restart);
                return;
            }
            match effect {
                Effect::Persist(records) => {
                    records
                        .into_iter()
                        .for_each(|record| self.table.apply(record));
                }
                Effect::Call(gpu, call) => {
                    *env.clients += 1;
                    let fault = env.faults.of_call(env.random, *env.clients);
                    if let Some(Fault::Held(client)) = fault {
                        self.outlast(env, 15_000, Local::Detach(gpu, client));
                    }
                    let (reply, latency) = self.gpus[usize::from(gpu)].call(&call, fault);
                    self.busy_until = self.busy_until.max(env.now + latency);
                    self.enter(env, latency, Local::Reply(gpu, reply));
                }
                Effect::Start(start) => self.enter(env, env.model.start_ms, Local::Begin(start)),
                Effect::Signal(id) => {
                    let patience = env.random.below(env.model.stop_ms.saturating_mul(2)) + 1;
                    self.end(env, id, patience, 143);
                }
                Effect::Kill(id) => self.end(env, id, 10, 137),
                Effect::Report(report) => self.report(env, report),
                Effect::Trouble(..) => {}
            }
        }
        let wake = self.hands.as_ref().and_then(Hands::wake_at);
        let known = self.tick_at.filter(|at| *at > env.now);
        if let Some(at) = wake.filter(|at| known.is_none_or(|known| *at < known)) {
            let at = at.max(env.now + 1);
            self.tick_at = Some(at);
            self.enter(env, at - env.now, Local::Tick);
        }
    }

    fn end(&mut self, env: &mut Env<'_>, id: AttemptId, after: Millis, code: i32) {
        if let Some(process) = self.processes.get(&id) {
            self.outlast(env, after, Local::Exit(id, process.serial, code));
        }
    }

    fn report(&self, env: &mut Env<'_>, report: NodeReport) {
        for at in arrivals(env) {
            env.agenda.enter(at, Happening::Report(report.clone()));
        }
    }

    /// Enters what dies with the hands.
    fn enter(&self, env: &mut Env<'_>, after: Millis, what: Local) {
        let what = Happening::Site(self.settings.node.clone(), self.born, Some(self.life), what);
        env.agenda.enter(env.now + after, what);
    }

    /// Enters what outlasts the hands.
    fn outlast(&self, env: &mut Env<'_>, after: Millis, what: Local) {
        let what = Happening::Site(self.settings.node.clone(), self.born, None, what);
        env.agenda.enter(env.now + after, what);
    }
}

/// When something sent now arrives: once as a rule; never, twice or late if things go wrong.
pub fn arrivals(env: &mut Env<'_>) -> Vec<Millis> {
    let mut times = Vec::new();
    if !env.random.happens(env.faults.lose) {
        times.push(env.now + env.model.network_ms);
    }
    if env.random.happens(env.faults.repeat) {
        times.push(env.now + env.model.network_ms * 2);
    }
    for at in &mut times {
        if env.random.happens(env.faults.delay) {
            *at += env.random.below(60_000);
        }
    }
    times
}
