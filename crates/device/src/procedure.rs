//! Prepare, unprepare and recover for one GPU, as step machines: one call out, one reply in.
//!
//! Whoever drives a procedure keeps the books (which instances are ours and who holds them) and
//! makes them durable. Each step looks at the books and at what is known of the device and returns
//! the one next thing to do, so a procedure may be dropped at any step and begun anew.

use crate::{
    gpu::{self, Answer, Call, Error, Found, Reply, State},
    table::Cut,
};
use cleave_model::{
    Millis, Name,
    board::{Board, Instance, ModeChange},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is to be reached on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// These instances exist, each with its compute instance; without any: the GPU is whole. Gives
    /// up when [`Patience`] ends. What it made by then is recorded and is left to an unprepare.
    Prepare(Vec<Instance>),
    /// Those of these instances that are ours and that no live attempt holds are gone. Never gives
    /// up: what is in use stays until it can go.
    Unprepare(Vec<Instance>),
    /// The books agree with the device. Nothing on the device changes. Never gives up.
    Recover {
        /// Whether instances that nobody recorded become ours. Only for a node that has no other
        /// user of MIG.
        adopt: bool,
    },
}

/// How often and how long to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patience {
    /// Failed calls after which a prepare gives up.
    pub tries: u32,
    /// Wait after the first failed call, milliseconds; doubles with each.
    pub first_ms: Millis,
    /// Longest wait, milliseconds.
    pub longest_ms: Millis,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 6,
            first_ms: 500,
            longest_ms: 30_000,
        }
    }
}

impl Patience {
    /// The wait after so many failed calls, milliseconds.
    pub fn pause(&self, failed: u32) -> Millis {
        let doubled = 1_u64 << failed.saturating_sub(1).min(31);
        self.first_ms.saturating_mul(doubled).min(self.longest_ms)
    }
}

/// What the driver of a procedure knows of the GPU.
#[derive(Clone, Debug)]
pub struct Books<'a> {
    /// Its board.
    pub board: &'a Board,
    /// Our instances, and who holds each.
    pub cuts: Vec<(Cut, Holder)>,
}

/// Who holds an instance of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// Nobody: it may go whenever its place is wanted.
    Nobody,
    /// Attempts that have ended: it goes with them.
    Ended,
    /// An attempt that is being prepared or runs: it stays.
    Live,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Execute this; step with its reply.
    Call(Call),
    /// Make this durable, put it in the books; then step without a reply.
    Record(Mark),
    /// Let so many milliseconds pass, then step without a reply. Other procedures may use the GPU
    /// meanwhile.
    Wait(Millis),
    /// The goal is reached, or given up.
    Done(Result<(), Trouble>),
}

/// A change of the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An instance is about to be made here.
    Cutting(Instance),
    /// Ours here has this UUID.
    Cut(Instance, Name),
    /// Nothing of ours is here.
    Gone(Instance),
}

/// Why a GPU can't be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// An instance stands in the way that is not ours to destroy.
    Occupied {
        /// Its id.
        gi: u32,
        /// Its first memory unit.
        start: u8,
    },
    /// MIG mode would have to change, and this machine can't change it.
    Mode,
    /// The device refused, to the end.
    Device(Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied { gi, start } => write!(
                f,
                "GPU instance {gi} at unit {start} was not made by Cleave: destroy it, or let \
                 Cleave adopt the node's instances"
            ),
            Self::Mode => f.write_str(
                "MIG mode needs a change that takes a GPU reset, which this machine can't do: set \
                 the mode from the host",
            ),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Trouble {}

/// A goal being pursued.
#[derive(Clone, Debug)]
pub struct Procedure {
    goal: Goal,
    patience: Patience,
    /// What is known of the device; `None`: look first.
    view: Option<State>,
    sent: Option<Call>,
    failed: u32,
    last_error: Option<Error>,
    /// The board had no room although the wanted places were empty: idle instances elsewhere count
    /// against a profile's maximum or hold media engines.
    crowded: bool,
    /// A creation failed for certain: to be dealt with once its record is taken back.
    refused: Option<Error>,
}

impl Procedure {
    /// Begins.
    pub fn new(goal: Goal, patience: Patience) -> Self {
        let (view, sent, last_error, refused) = (None, None, None, None);
        Self {
            goal,
            patience,
            view,
            sent,
            failed: 0,
            last_error,
            crowded: false,
            refused,
        }
    }

    /// Right after the failed call that uses up [`Patience`]: what is wrong. A goal that never
    /// gives up goes on trying; this is when people should know.
    pub fn alarm(&self) -> Option<Trouble> {
        let spent = self.failed == self.patience.tries;
        self.last_error.filter(|_| spent).map(Trouble::Device)
    }

    /// Takes the reply to the call that the last step returned, if it returned one, and tells what
    /// is next.
    pub fn step(&mut self, books: &Books<'_>, reply: Option<Reply>) -> Next {
        if let Some(error) = self.refused.take() {
            return self.fail(error);
        }
        match (self.sent.take(), reply) {
            (Some(call), Some(reply)) => match (self.learn(books.board, call, reply), call) {
                (Ok(()), _) => {}
                // What is found in this place from now on was made by someone else.
                (Err(error), Call::CreateGi(i)) if error.is_certain() => {
                    self.refused = Some(error);
                    return Next::Record(Mark::Gone(i));
                }
                (Err(error), _) => return self.fail(error),
            },
            (Some(_), None) => self.view = None,
            (None, _) => {}
        }
        let next = self.choose(books);
        if let Next::Call(call) = next {
            self.sent = Some(call);
        }
        next
    }

    fn fail(&mut self, error: Error) -> Next {
        self.view = None;
        self.failed = self.failed.saturating_add(1);
        self.last_error = Some(error);
        self.crowded |= error == Error::InsufficientResources;
        let hopeless = matches!(error, Error::Lost | Error::NotSupported);
        let bounded = matches!(self.goal, Goal::Prepare(_));
        if bounded && (hopeless || self.failed >= self.patience.tries) {
            return Next::Done(Err(Trouble::Device(error)));
        }
        Next::Wait(self.patience.pause(self.failed))
    }

    /// Brings the view up to date; what can't be told for certain is looked at again.
    fn learn(&mut self, board: &Board, call: Call, reply: Reply) -> Result<(), Error> {
        let answer = match (call, reply) {
            (Call::SetMode(_), Err(Error::ResetRequired)) => Answer::Done,
            (_, reply) => reply?,
        };
        if let (Call::Walk, Answer::State(state)) = (call, &answer) {
            self.view = Some(state.clone());
            return Ok(());
        }
        let Some(mut view) = self.view.take() else {
            return Err(Error::Unknown);
        };
        let at = call
            .gi()
            .and_then(|gi| view.found.iter().position(|of| of.gi == gi));
        match (call, answer, at) {
            (Call::SetMode(_) | Call::Reset, Answer::Done, _) => return Ok(()),
            (Call::CreateGi(i), Answer::Gi(gi), _) => {
                let size = board.at(i.profile).size;
                let new = Found {
                    gi,
                    instance: Some(i),
                    start: i.start,
                    size,
                    cis: Vec::new(),
                };
                view.found.push(new);
            }
            (Call::CreateCi { .. }, Answer::Ci(ci), Some(at)) => {
                view.found[at].cis.push((ci, None))
            }
            (Call::Info { ci, .. }, Answer::Uuid(uuid), Some(at)) => {
                view.found[at].cis = vec![(ci, Some(uuid))];
            }
            (Call::DestroyCi { ci, .. }, _, Some(at)) => view.found[at].cis.retain(|c| c.0 != ci),
            (Call::DestroyGi { .. }, _, Some(at)) => drop(view.found.remove(at)),
            _ => return Err(Error::Unknown),
        }
        self.view = Some(view);
        Ok(())
    }

    fn choose(&self, books: &Books<'_>) -> Next {
        let doomed = self.doomed(books);
        if matches!(self.goal, Goal::Unprepare(_)) && doomed.is_empty() {
            return Next::Done(Ok(()));
        }
        let Some(view) = &self.view else {
            return Next::Call(Call::Walk);
        };
        if let Some(cut) = doomed.first() {
            return match view.found.iter().find(|of| is(of, cut)) {
                None => Next::Record(Mark::Gone(cut.instance)),
                Some(of) => Next::Call(match of.cis.first() {
                    Some(&(ci, _)) => Call::DestroyCi { gi: of.gi, ci },
                    None => Call::DestroyGi { gi: of.gi },
                }),
            };
        }
        match &self.goal {
            Goal::Prepare(wanted) => {
                prepare(wanted, view, books).unwrap_or_else(|t| Next::Done(Err(t)))
            }
            Goal::Unprepare(_) => Next::Done(Ok(())),
            Goal::Recover { adopt } => recover(*adopt, view, books),
        }
    }

    /// Our instances that must go for the goal.
    fn doomed<'a>(&self, books: &'a Books<'_>) -> Vec<&'a Cut> {
        let goes = |cut: &Cut, holder: Holder| match &self.goal {
            Goal::Prepare(wanted) => {
                let near = |&w: &Instance| gpu::overlap(books.board, w, cut.instance);
                let in_the_way = self.crowded || wanted.is_empty() || wanted.iter().any(near);
                holder == Holder::Nobody && in_the_way
            }
            Goal::Unprepare(given) => holder != Holder::Live && given.contains(&cut.instance),
            Goal::Recover { .. } => false,
        };
        let cuts = books.cuts.iter();
        cuts.filter(|(cut, holder)| goes(cut, *holder))
            .map(|(cut, _)| cut)
            .collect()
    }
}

fn prepare(wanted: &[Instance], view: &State, books: &Books<'_>) -> Result<Next, Trouble> {
    let ours = |of: &Found, i: Instance| {
        books
            .cuts
            .iter()
            .any(|(cut, _)| cut.instance == i && is(of, cut))
    };
    let size = |i: Instance| books.board.at(i.profile).size;
    let in_the_way = |of: &&Found| match wanted {
        [] => true,
        _ => wanted
            .iter()
            .any(|&i| gpu::meet((of.start, of.size), (i.start, size(i))) && !ours(of, i)),
    };
    if let Some(of) = view.found.iter().find(in_the_way) {
        return Err(Trouble::Occupied {
            gi: of.gi,
            start: of.start,
        });
    }

    let on = !wanted.is_empty();
    if view.mode != on {
        let possible = match books.board.mode_change {
            ModeChange::Never => false,
            ModeChange::Reset => view.can_reset,
            ModeChange::Live => true,
        };
        if !possible {
            return Err(Trouble::Mode);
        }
        let call = if view.pending == on {
            Call::Reset
        } else {
            Call::SetMode(on)
        };
        return Ok(Next::Call(call));
    }

    for &i in wanted {
        let cut = books
            .cuts
            .iter()
            .map(|(cut, _)| cut)
            .find(|cut| cut.instance == i);
        let found = view.found.iter().find(|of| ours(of, i));
        let uuid = cut.and_then(|cut| cut.uuid.as_ref());
        return Ok(match (found.map(|of| (of.gi, of.cis.first())), uuid) {
            (Some((_, Some((_, Some(is))))), Some(known)) if is == known => continue,
            (Some((_, Some((_, Some(uuid))))), _) => Next::Record(Mark::Cut(i, uuid.clone())),
            (Some((gi, Some(&(ci, None)))), _) => Next::Call(Call::Info { gi, ci }),
            // Its place is empty, or half of it is there and a new UUID will come.
            _ if cut.is_none() || uuid.is_some() => Next::Record(Mark::Cutting(i)),
            (Some((gi, None)), _) => Next::Call(Call::CreateCi { gi }),
            (None, _) => Next::Call(Call::CreateGi(i)),
        });
    }
    Ok(Next::Done(Ok(())))
}

fn recover(adopt: bool, view: &State, books: &Books<'_>) -> Next {
    let missing = |cut: &&Cut| !view.found.iter().any(|of| is(of, cut));
    if let Some(cut) = books.cuts.iter().map(|(cut, _)| cut).find(missing) {
        return Next::Record(Mark::Gone(cut.instance));
    }
    let unknown = |of: &&Found| !books.cuts.iter().any(|(cut, _)| is(of, cut));
    for of in view.found.iter().filter(unknown).filter(|_| adopt) {
        match (of.instance, &of.cis[..]) {
            (Some(i), [(_, Some(uuid))]) => return Next::Record(Mark::Cut(i, uuid.clone())),
            (Some(i), []) => return Next::Record(Mark::Cutting(i)),
            _ => {}
        }
    }
    Next::Done(Ok(()))
}

/// Whether what was found is this cut of ours. Between the two halves of making or unmaking it has
/// no UUID.
fn is(found: &Found, cut: &Cut) -> bool {
    let same = |uuid: &Option<Name>| uuid.is_none() || cut.uuid.is_none() || *uuid == cut.uuid;
    found.instance == Some(cut.instance) && found.cis.iter().all(|(_, uuid)| same(uuid))
}
