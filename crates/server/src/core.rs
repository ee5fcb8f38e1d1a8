//! The loop: what comes in is collected, closed into a batch, committed, and only then acted on.

use crate::{
    caller::Caller,
    journal::{Broken, Incoming, Journal, Ticket},
    link::Link,
    view::Heard,
};
use cleave_control::{Control, Deed, Input, Refusal, Request};
use cleave_engine::planner::{ByPrice, Question, Walk};
use cleave_engine::state::NoSink;
use cleave_model::{
    Millis, Name, message::Order, observation::NodeReport, prices::Prices, workload::Workload,
};
use cleave_wire::{
    agent::{Note, Told, Welcome},
    fault,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;

/// Things taken in before a batch is closed at the latest.
const MOST_ENTRIES: usize = 10_000;
/// Jobs that are not over at most, in all.
const MOST_JOBS: usize = 200_000;
/// Messages that are kept for a node that is not reached; more are said again later.
const MOST_UNSENT: usize = 1_000;
/// Notes of agents that are kept for a batch at most.
const MOST_NOTES: usize = 1_000;

/// Something that reached the loop.
pub enum Entry {
    /// Jobs are wanted, all or none.
    Submit(Vec<Wanted>, bool, Answer<Vec<Name>>),
    /// Jobs are no longer wanted.
    Cancel(Caller, Vec<Name>, Answer<Refusals>),
    /// An agent is reached.
    Came(usize, Box<Welcome>, Link),
    /// An agent is no longer reached.
    Gone(usize),
    /// An agent can't be used; why.
    Unreached(usize, String),
    /// A node told everything.
    Report(NodeReport),
    /// An agent has something to say.
    Note(Note),
    /// Prices that were asked for.
    Refined(u64, Prices),
    /// It is to end.
    Stop,
}

/// One job that is wanted, with what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The workload; when it was submitted is for the loop to say.
    pub workload: Workload,
    /// What it runs, and for whom.
    pub incoming: Incoming,
}

/// What was refused, and why.
pub type Refusals = BTreeMap<Name, String>;

/// Where an answer goes: the good outcome, or a sentence.
pub type Answer<T> = oneshot::Sender<Result<T, String>>;

/// A submission whose requests are under way.
struct Pending {
    left: usize,
    names: Vec<Name>,
    refused: Vec<Refusal>,
    answer: Answer<Vec<Name>>,
}

/// The loop and what it holds.
pub struct Core {
    pub control: Control<Walk<ByPrice>>,
    pub journal: Journal,
    pub view: Sender<Heard>,
    pub to_self: Sender<Entry>,
    pub links: BTreeMap<Name, (usize, Link)>,
    /// What nodes that are not reached are to be told when they are.
    unsent: BTreeMap<Name, Vec<Told>>,
    pub incoming: BTreeMap<Name, Incoming>,
    pending: BTreeMap<u64, Pending>,
    cancelling: Vec<(Answer<Refusals>, Refusals)>,
    notes: Vec<Note>,
    absent: BTreeSet<usize>,
    token: u64,
}

impl Core {
    /// A loop that has heard nothing yet.
    pub fn new(
        control: Control<Walk<ByPrice>>,
        journal: Journal,
        view: Sender<Heard>,
        to_self: Sender<Entry>,
    ) -> Self {
        Self {
            control,
            journal,
            view,
            to_self,
            links: BTreeMap::new(),
            unsent: BTreeMap::new(),
            incoming: BTreeMap::new(),
            pending: BTreeMap::new(),
            cancelling: Vec::new(),
            notes: Vec::new(),
            absent: BTreeSet::new(),
            token: 0,
        }
    }

    /// Lives until it is told to stop.
    ///
    /// # Errors
    /// The journal can't be written: nothing that was not written was told to anyone.
    pub fn run(&mut self, entries: &Receiver<Entry>) -> Result<(), Broken> {
        let mut wake: Option<Millis> = Some(0);
        loop {
            let first = match wake {
                Some(at) => entries.recv_timeout(Duration::from_millis(at.saturating_sub(now()))),
                None => entries.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let mut stop = false;
            match first {
                Ok(entry) => {
                    let rest = entries.try_iter().take(MOST_ENTRIES);
                    for entry in std::iter::once(entry).chain(rest) {
                        stop |= matches!(entry, Entry::Stop);
                        self.take(entry)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => stop = true,
            }
            wake = self.close()?;
            if stop {
                return Ok(());
            }
        }
    }

    fn take(&mut self, entry: Entry) -> Result<(), Broken> {
        match entry {
            Entry::Submit(wanted, number, answer) => self.submit(wanted, number, answer)?,
            Entry::Cancel(caller, names, answer) => self.cancel(&caller, names, answer),
            Entry::Came(agent, welcome, link) => {
                let node = welcome.node.clone();
                for told in self.unsent.remove(&node.name).unwrap_or_default() {
                    link.tell(told);
                }
                self.links.insert(node.name.clone(), (agent, link));
                let _ = self.view.send(Heard::Came(agent, welcome));
                self.request(0, Request::Node(node));
                self.came(agent);
            }
            Entry::Gone(agent) => {
                self.links.retain(|_, (other, _)| *other != agent);
                let _ = self.view.send(Heard::Gone(agent, None));
            }
            Entry::Unreached(agent, why) => {
                let _ = self.view.send(Heard::Gone(agent, Some(why)));
            }
            Entry::Report(report) => self.control.input(Input::Report(report)),
            Entry::Note(note) => {
                if self.notes.len() < MOST_NOTES {
                    self.notes.push(note);
                }
            }
            Entry::Refined(asked_at, prices) => {
                self.control.input(Input::Refined { asked_at, prices });
            }
            Entry::Stop => {}
        }
        Ok(())
    }

    /// How many agents there are. When all have come, nodes of the journal that none of them is
    /// and that hold nothing are given up.
    pub fn expect(&mut self, agents: usize) {
        self.absent = (0..agents).collect();
    }

    fn came(&mut self, agent: usize) {
        if !self.absent.remove(&agent) || !self.absent.is_empty() {
            return;
        }
        let state = self.control.state();
        let nodes = state.nodes().map(|(_, books)| books.name().clone());
        let left = nodes.filter(|name| {
            !self.links.contains_key(name) && state.leases_on(name.as_str()).next().is_none()
        });
        for name in left.collect::<Vec<_>>() {
            self.request(0, Request::NodeGone(name));
        }
    }

    /// Asks the control plane; nobody waits for the answer to token 0.
    pub fn request(&mut self, from: u64, request: Request) {
        self.control.input(Input::Request { from, request });
    }

    fn submit(
        &mut self,
        mut wanted: Vec<Wanted>,
        number: bool,
        answer: Answer<Vec<Name>>,
    ) -> Result<(), Broken> {
        let jobs = self.control.state().workloads().count() + self.incoming.len();
        if jobs + wanted.len() > MOST_JOBS {
            let why = format!(
                "{jobs} jobs are not over yet, {MOST_JOBS} is the most: wait, or cancel some"
            );
            let _ = answer.send(Err(why));
            return Ok(());
        }
        if number {
            let next = self.journal.next_job()?;
            let taken = |name: &Name| {
                self.control.state().workload(name.as_str()).is_some()
                    || self.incoming.contains_key(name)
            };
            let numbered = |n: i64| -> Option<Vec<Name>> {
                let names = wanted
                    .iter()
                    .map(|w| Name::new(format!("{}-{n}", w.workload.name)).ok());
                names.map(|name| name.filter(|name| !taken(name))).collect()
            };
            // Some number is free, for only so many names are in use.
            let found = (next..next + MOST_JOBS as i64).find_map(numbered);
            for (wanted, name) in wanted.iter_mut().zip(found.unwrap_or_default()) {
                wanted.workload.name = name;
            }
        }
        let mut seen = BTreeSet::new();
        let mut new = Vec::new();
        for wanted in &mut wanted {
            wanted.workload.submitted = now();
            let name = &wanted.workload.name;
            if !seen.insert(name.clone()) {
                let _ = answer.send(Err(format!("two jobs are named `{name}`: rename one")));
                return Ok(());
            }
            match self.standing(wanted)? {
                Standing::Free => new.push(wanted.clone()),
                Standing::Same => {}
                Standing::Taken(user) => {
                    let why = format!(
                        "`{name}` of {user} is not over: choose another name, or wait for its end"
                    );
                    let _ = answer.send(Err(why));
                    return Ok(());
                }
            }
        }
        let names = wanted.iter().map(|wanted| wanted.workload.name.clone());
        let names: Vec<Name> = names.collect();
        if new.is_empty() {
            let _ = answer.send(Ok(names));
            return Ok(());
        }
        self.token += 1;
        let pending = Pending {
            left: new.len(),
            names,
            refused: Vec::new(),
            answer,
        };
        self.pending.insert(self.token, pending);
        for Wanted { workload, incoming } in new {
            self.incoming.insert(workload.name.clone(), incoming);
            self.request(self.token, Request::Submit(workload));
        }
        Ok(())
    }

    /// Whether the name of a job is free. Who lost an answer may ask for the same again.
    fn standing(&self, wanted: &Wanted) -> Result<Standing, Broken> {
        let name = &wanted.workload.name;
        if let Some(coming) = self.incoming.get(name) {
            return Ok(Standing::Taken(coming.user.clone()));
        }
        let Some(work) = self.control.state().workload(name.as_str()) else {
            return Ok(Standing::Free);
        };
        let old = Workload {
            submitted: wanted.workload.submitted,
            ..(*work.spec).clone()
        };
        let same = old == wanted.workload
            && !work.cancelled
            && self.journal.job(name)?.as_ref() == Some(&wanted.incoming.job);
        let user = self.journal.ticket(name).map(|ticket| ticket.user.clone());
        Ok(match same {
            true => Standing::Same,
            false => Standing::Taken(user.unwrap_or_else(|| "somebody".into())),
        })
    }

    fn cancel(&mut self, caller: &Caller, names: Vec<Name>, answer: Answer<Refusals>) {
        let mut refused = Refusals::new();
        for name in names {
            match self.journal.ticket(&name) {
                None => {
                    refused.insert(name, "there is no such job, or it is over".into());
                }
                Some(ticket) if !caller.may_touch(ticket.uid) => {
                    let why = format!(
                        "it belongs to {}: ask them, or an administrator",
                        ticket.user
                    );
                    refused.insert(name, why);
                }
                Some(_) => self.request(0, Request::Cancel(name)),
            }
        }
        self.cancelling.push((answer, refused));
    }

    /// Closes a batch; returns when to do so again even if nothing comes.
    fn close(&mut self) -> Result<Option<Millis>, Broken> {
        let began = Instant::now();
        let output = self.control.close(now(), &mut NoSink);
        let took = began.elapsed();
        let state = self.control.state();
        self.journal
            .commit(&output.records, state, &self.incoming)?;
        let last = state.batch();
        if !output.records.is_empty() || !self.notes.is_empty() {
            let opened = self.incoming.keys().filter_map(|name| {
                let ticket = self.journal.ticket(name)?;
                Some((name.clone(), ticket.clone()))
            });
            let heard = Heard::Folded {
                records: output.records,
                opened: opened.collect::<BTreeMap<Name, Ticket>>(),
                notes: std::mem::take(&mut self.notes),
                took,
            };
            let _ = self.view.send(heard);
        }
        for effect in self.control.durable(last) {
            self.carry_out(effect.what)?;
        }
        if self.control.blocked_on_refine().is_some() {
            return Ok(None);
        }
        for (answer, refused) in self.cancelling.drain(..) {
            let _ = answer.send(Ok(refused));
        }
        Ok(output.wake)
    }

    fn carry_out(&mut self, deed: Deed) -> Result<(), Broken> {
        match deed {
            Deed::Send { node, message } => {
                let job = match &message.order {
                    Order::Place { worker, .. } => {
                        self.journal.job(&worker.workload)?.map(Box::new)
                    }
                    _ => None,
                };
                fault::point("send-before");
                let told = Told::Order(message, job);
                match self.links.get(&node) {
                    Some((_, link)) => link.tell(told),
                    // A lost message is said again, but only after a while.
                    None => {
                        let unsent = self.unsent.entry(node).or_default();
                        if unsent.len() < MOST_UNSENT {
                            unsent.push(told);
                        }
                    }
                }
                fault::point("send-after");
            }
            Deed::Answer { to, reply } => {
                let Some(pending) = self.pending.get_mut(&to) else {
                    return Ok(());
                };
                pending.left -= 1;
                pending.refused.extend(reply.err());
                if pending.left == 0
                    && let Some(pending) = self.pending.remove(&to)
                {
                    for name in &pending.names {
                        self.incoming.remove(name);
                    }
                    let reply = match pending.refused.first() {
                        None => Ok(pending.names),
                        Some(refusal) => Err(refusal.to_string()),
                    };
                    fault::point("answer-before");
                    let _ = pending.answer.send(reply);
                }
            }
            Deed::Refine { asked_at } => {
                let question = Question::of(self.control.state());
                let to = self.to_self.clone();
                thread::spawn(move || to.send(Entry::Refined(asked_at, question.answer())));
            }
        }
        Ok(())
    }
}

enum Standing {
    Free,
    Same,
    Taken(String),
}

/// Milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
