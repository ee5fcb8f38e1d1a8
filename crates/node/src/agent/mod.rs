//! The agent: one loop around the hands.

mod begin;
mod prune;
mod start;
mod watch;

pub use begin::run;

use crate::{
    cgroup::Cgroups,
    devices::Devices,
    home::Home,
    lobby::Visit,
    output::Live,
    shim::ask::Ask,
    store::{Store, StoreError},
    task::Surroundings,
};
use cleave_device::{
    gpu::Reply,
    hands::{Effect, Hands, Input, Settings, Start},
    table::{AttemptId, Stage},
};
use cleave_model::{
    Millis,
    message::{Message, Order},
    observation::NodeReport,
};
use cleave_wire::{
    agent::{Note, Said},
    fault,
    frame::{self, Frame},
    job::Job,
};
use std::{
    collections::{BTreeMap, VecDeque},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender},
    time::{Duration, Instant},
};

/// How often the whole state is told, milliseconds.
const REPORT_MS: Millis = 5_000;
const PRUNE_MS: Millis = 3_600_000;
/// Notes that wait for a control plane at most.
const NOTES: usize = 256;

/// What comes into the loop.
#[derive(Debug)]
pub(crate) enum Event {
    /// From control planes.
    Visit(Visit),
    /// The shim in this home runs its job.
    Started(AttemptId, u64),
    /// The shim in this home is gone, and so is all that it started.
    Over(AttemptId, u64, End),
    /// These homes are no more.
    Pruned(Vec<u64>),
    /// The agent is to stop; work goes on.
    Stop,
}

/// How a shim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its job did, with this code.
    Code(i32),
    /// It never had a job; why.
    Failed(String),
    /// Nobody knows.
    Lost,
}

/// An attempt that has a shim.
#[derive(Debug)]
struct Running {
    serial: u64,
    shim: Option<UnixStream>,
}

/// The agent.
pub(crate) struct Agent {
    dir: PathBuf,
    store: Store,
    devices: Devices,
    settings: Settings,
    around: Surroundings,
    cgroups: Option<Cgroups>,
    root_jobs: bool,
    hands: Hands,
    /// Inputs for the hands that came while effects were carried out.
    inputs: VecDeque<Input>,
    running: BTreeMap<AttemptId, Running>,
    live: Live,
    link: Option<(u64, SyncSender<Said>)>,
    /// What people should know, as long as there is nobody to tell.
    notes: VecDeque<Note>,
    /// Replies on their way: when each arrives and in which life of the hands it was asked for.
    replies: BTreeMap<(Millis, u64), (u64, u8, Reply)>,
    calls: u64,
    life: u64,
    begun: Instant,
    report_at: Millis,
    prune_at: Millis,
    events: SyncSender<Event>,
}

impl Agent {
    fn now(&self) -> Millis {
        self.begun.elapsed().as_millis() as Millis
    }

    /// Goes on until it is told to stop.
    ///
    /// # Errors
    /// What must be durable can't be made so.
    fn serve(mut self, events: &Receiver<Event>) -> Result<(), StoreError> {
        loop {
            self.settle()?;
            let now = self.now();
            if now >= self.report_at {
                let report = self.hands.report();
                self.report(report);
            }
            if now >= self.prune_at {
                self.prune_at = now + PRUNE_MS;
                self.prune()?;
            }
            let reply = self.replies.keys().next().map(|(at, _)| *at);
            let wake = [reply, self.hands.wake_at(), Some(self.prune_at)];
            let wake = wake.into_iter().flatten().fold(self.report_at, Millis::min);
            let pause = Duration::from_millis(wake.saturating_sub(self.now()));
            match events.recv_timeout(pause) {
                Ok(Event::Stop) => return Ok(()),
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let now = self.now();
            while let Some(entry) = self.replies.first_entry().filter(|of| of.key().0 <= now) {
                let (life, gpu, reply) = entry.remove();
                if life == self.life {
                    self.inputs.push_back(Input::Reply(gpu, reply));
                }
            }
            if self.hands.wake_at().is_some_and(|at| at <= now) {
                self.inputs.push_back(Input::Tick);
            }
        }
    }

    /// Steps the hands by all inputs there are.
    fn settle(&mut self) -> Result<(), StoreError> {
        while let Some(input) = self.inputs.pop_front() {
            let effects = self.hands.step(self.now(), input);
            self.carry_out(effects)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), StoreError> {
        match event {
            Event::Visit(Visit::Link(link, said)) => {
                // Letting go of the older one ends it.
                self.link = Some((link, said));
                let report = self.hands.report();
                self.report(report);
                for note in std::mem::take(&mut self.notes) {
                    self.note(note);
                }
            }
            Event::Visit(Visit::Told(link, message, job)) => {
                if self.is_link(link) {
                    self.hear(message, job)?;
                }
            }
            Event::Visit(Visit::Gone(link, why)) => {
                if self.is_link(link) {
                    why.into_iter().for_each(|why| self.say(Said::Refused(why)));
                    self.link = None;
                }
            }
            Event::Started(id, serial) => {
                if self.is_running(&id, serial) {
                    self.inputs.push_back(Input::Started(id));
                }
            }
            Event::Over(id, serial, end) => {
                if self.is_running(&id, serial) {
                    self.over(id, serial, end)?;
                }
            }
            Event::Pruned(serials) => self.store.drop_homes(&serials)?,
            Event::Stop => {}
        }
        Ok(())
    }

    fn is_link(&self, link: u64) -> bool {
        self.link.as_ref().is_some_and(|(of, _)| *of == link)
    }

    fn is_running(&self, id: &AttemptId, serial: u64) -> bool {
        self.running.get(id).is_some_and(|of| of.serial == serial)
    }

    /// A message came. What is to be run is durable before the hands hear of it, and is not kept
    /// for an attempt that they will not have.
    fn hear(&mut self, message: Message, job: Option<Box<Job>>) -> Result<(), StoreError> {
        let placed = match &message.order {
            Order::Place {
                worker, attempt, ..
            } => Some(AttemptId {
                worker: worker.clone(),
                attempt: *attempt,
            }),
            _ => None,
        };
        if let (Some(id), Some(job)) = (&placed, &job) {
            self.store.put_job(id, job)?;
        }
        self.inputs.push_back(Input::Message(message));
        self.settle()?;
        match placed {
            Some(id) if !self.hands.table().attempts.contains_key(&id) => {
                self.store.drop_stray_jobs()
            }
            _ => Ok(()),
        }
    }

    /// A shim is gone.
    fn over(&mut self, id: AttemptId, serial: u64, end: End) -> Result<(), StoreError> {
        self.running.remove(&id);
        self.live.lock().remove(&serial);
        self.devices.detach(serial);
        let stage = self.hands.table().attempts.get(&id).map(|of| of.stage);
        match (end, stage) {
            (End::Code(code), _) => self.inputs.push_back(Input::Exited(id, code)),
            (End::Failed(why), Some(Stage::Starting | Stage::Stopping { .. })) => {
                self.tell(Some(id.clone()), None, why);
                self.inputs.push_back(Input::NotStarted(id));
            }
            (_, Some(Stage::Starting | Stage::Running)) => {
                let why =
                    "the process that watched over it was killed, so how it ended is not known";
                self.tell(Some(id), None, why.into());
                // What is lost is found out at a start.
                self.start_hands()?;
            }
            _ => self.inputs.push_back(Input::Exited(id, 128 + 9)),
        }
        Ok(())
    }

    /// Starts the hands anew, from what is durable and what is alive. Simulated calls have had
    /// their effect when they return, so those that are out need not be waited for.
    fn start_hands(&mut self) -> Result<(), StoreError> {
        self.life += 1;
        let alive: Vec<AttemptId> = self.running.keys().cloned().collect();
        let table = self.hands.table().clone();
        let (hands, effects) = Hands::start(self.settings.clone(), table, self.now(), &alive);
        self.hands = hands;
        self.carry_out(effects)
    }

    /// Carries effects out, in order.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), StoreError> {
        for effect in effects {
            match effect {
                Effect::Persist(records) => {
                    fault::point("agent-persist-before");
                    self.store.persist(&records)?;
                    fault::point("agent-persist-after");
                }
                Effect::Call(gpu, call) => {
                    fault::point("agent-call-before");
                    let (reply, after_ms) = self.devices.call(&mut self.store, gpu, &call)?;
                    fault::point("agent-call-after");
                    self.calls += 1;
                    let at = self.now() + after_ms;
                    self.replies
                        .insert((at, self.calls), (self.life, gpu, reply));
                }
                Effect::Start(start) => {
                    fault::point("agent-start-before");
                    self.start(&start)?;
                    fault::point("agent-start-after");
                }
                Effect::Signal(id) => {
                    fault::point("agent-signal-before");
                    self.ask(&id, Ask::Terminate);
                    fault::point("agent-signal-after");
                }
                Effect::Kill(id) => {
                    fault::point("agent-kill-before");
                    self.ask(&id, Ask::Kill);
                    fault::point("agent-kill-after");
                }
                Effect::Report(report) => {
                    fault::point("agent-report-before");
                    self.report(report);
                    fault::point("agent-report-after");
                }
                Effect::Trouble(id, gpu, trouble) => {
                    self.tell(id, Some(gpu), format!("GPU {gpu}: {trouble}"));
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, start: &Start) -> Result<(), StoreError> {
        if let Err(why) = self.try_start(start)? {
            self.tell(Some(start.id.clone()), None, why);
            self.inputs.push_back(Input::NotStarted(start.id.clone()));
        }
        Ok(())
    }

    /// Asks the shim of an attempt. One that is gone will be missed elsewhere.
    fn ask(&mut self, id: &AttemptId, ask: Ask) {
        let Some(running) = self.running.get_mut(id) else {
            return;
        };
        let frame = Frame::message(&ask);
        let sent = |shim: &mut UnixStream| frame::write(shim, &frame).is_ok();
        if !running.shim.as_mut().is_some_and(sent) {
            let home = Home::of(&self.dir, running.serial);
            running.shim = home.connect().ok();
            running.shim.as_mut().map(sent);
        }
    }

    fn report(&mut self, report: NodeReport) {
        self.report_at = self.now() + REPORT_MS;
        self.say(Said::Report(report));
    }

    fn tell(&mut self, attempt: Option<AttemptId>, gpu: Option<u8>, text: String) {
        self.note(Note { attempt, gpu, text });
    }

    fn note(&mut self, note: Note) {
        if self.link.is_some() {
            self.say(Said::Note(note));
        } else {
            self.notes.push_back(note);
            self.notes.drain(..self.notes.len().saturating_sub(NOTES));
        }
    }

    /// Says something to the control plane, if there is one that listens.
    fn say(&mut self, said: Said) {
        if let Some((_, link)) = &self.link
            && link.try_send(said).is_err()
        {
            // Gone, or too far behind: it comes back for the whole state.
            self.link = None;
        }
    }
}
