//! One GPU as NVML shows it: MIG mode, instances, who holds them; calls, replies, latencies.
//!
//! Order and errors follow NVML (go-nvml API v13, and how the NVIDIA DRA driver uses it): instances
//! exist only in MIG mode; a GPU instance must lose its compute instance before it can go; an
//! occupied or exhausted place is `InsufficientResources`; ids are reused while the UUID, which
//! belongs to the compute instance, is new each time.

use cleave_model::{
    Millis, Name,
    board::{Board, Engines, Instance, ModeChange},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What can be asked of one GPU. Every call returns before the next one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Read mode and all instances; answers [`Answer::State`].
    Walk,
    /// Switch MIG mode; the GPU must have no instance and no client. Where that takes a reset, the
    /// mode is pending afterwards and the reply is [`Error::ResetRequired`].
    SetMode(bool),
    /// Reset the GPU, which puts a pending mode in force and ends all instances.
    Reset,
    /// Create a GPU instance at its place; answers [`Answer::Gi`].
    CreateGi(Instance),
    /// Create the compute instance that spans a GPU instance; answers [`Answer::Ci`].
    CreateCi {
        /// GPU instance.
        gi: u32,
    },
    /// Read one compute instance back; answers [`Answer::Uuid`].
    Info {
        /// GPU instance.
        gi: u32,
        /// Compute instance.
        ci: u32,
    },
    /// Destroy a compute instance.
    DestroyCi {
        /// GPU instance.
        gi: u32,
        /// Compute instance.
        ci: u32,
    },
    /// Destroy a GPU instance.
    DestroyGi {
        /// GPU instance.
        gi: u32,
    },
}

impl Call {
    /// Whether the call changes anything.
    pub fn has_effect(&self) -> bool {
        !matches!(self, Self::Walk | Self::Info { .. })
    }

    /// The existing GPU instance it is about.
    pub fn gi(&self) -> Option<u32> {
        match *self {
            Self::CreateCi { gi } | Self::DestroyCi { gi, .. } => Some(gi),
            Self::Info { gi, .. } | Self::DestroyGi { gi } => Some(gi),
            Self::Walk | Self::SetMode(_) | Self::Reset | Self::CreateGi(_) => None,
        }
    }
}

/// What a call came to.
pub type Reply = Result<Answer, Error>;

/// The good outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Done; there is nothing to tell.
    Done,
    /// The new GPU instance's id, unique on its GPU while it exists.
    Gi(u32),
    /// The new compute instance's id, unique in its GPU instance while it exists.
    Ci(u32),
    /// The UUID of a compute instance, by which work finds it.
    Uuid(Name),
    /// The whole GPU.
    State(State),
}

/// A GPU as one walk over it finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Whether MIG mode is in force.
    pub mode: bool,
    /// What the mode will be after the next reset.
    pub pending: bool,
    /// Whether this machine may reset the GPU (a pass-through VM may not).
    pub can_reset: bool,
    /// The instances, by id.
    pub found: Vec<Found>,
}

/// A GPU instance that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its id.
    pub gi: u32,
    /// Its profile and place; `None` if its profile is none of the board's.
    pub instance: Option<Instance>,
    /// First memory unit.
    pub start: u8,
    /// Memory units.
    pub size: u8,
    /// Its compute instances: id and, once it was read, UUID.
    pub cis: Vec<(u32, Option<Name>)>,
}

/// Why a call failed, as NVML says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Error {
    /// The place is occupied, or all instances of the kind are taken.
    InsufficientResources,
    /// Someone holds it.
    InUse,
    /// There is no such instance.
    NotFound,
    /// The GPU or its present mode can't do it.
    NotSupported,
    /// The change is pending until a reset.
    ResetRequired,
    /// The GPU fell off the bus.
    Lost,
    /// No reply came; the call may or may not have had its effect.
    Timeout,
    /// Anything else.
    Unknown,
}

impl Error {
    /// Whether the failed call certainly had no effect.
    pub fn is_certain(self) -> bool {
        !matches!(
            self,
            Self::Timeout | Self::Unknown | Self::Lost | Self::ResetRequired
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InsufficientResources => "insufficient resources: the place is taken",
            Self::InUse => "in use: end the processes and monitors that hold it",
            Self::NotFound => "no such instance",
            Self::NotSupported => "not supported in the GPU's present mode",
            Self::ResetRequired => "pending until the GPU is reset",
            Self::Lost => "the GPU is lost: reboot the node or replace it",
            Self::Timeout => "no reply",
            Self::Unknown => "unknown error of the driver",
        })
    }
}

impl std::error::Error for Error {}

/// How long calls take, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latencies {
    /// [`Call::Walk`]; seconds on a loaded node.
    pub walk_ms: Millis,
    /// [`Call::Info`].
    pub info_ms: Millis,
    /// [`Call::CreateGi`].
    pub create_gi_ms: Millis,
    /// [`Call::CreateCi`].
    pub create_ci_ms: Millis,
    /// [`Call::DestroyCi`].
    pub destroy_ci_ms: Millis,
    /// [`Call::DestroyGi`].
    pub destroy_gi_ms: Millis,
    /// [`Call::SetMode`].
    pub mode_ms: Millis,
    /// [`Call::Reset`].
    pub reset_ms: Millis,
}

/// No published table exists. A destroy is reported as about 1 s and a walk as up to 10 s under
/// load (NVIDIA DRA driver, `nvlib.go`), a cycle of create, run, destroy as about 3 s (InstaSlice);
/// the rest are guesses inside 0.5-2 s (create), 2-5 s (mode) and 30-300 s (reset).
impl Default for Latencies {
    fn default() -> Self {
        Self {
            walk_ms: 200,
            info_ms: 50,
            create_gi_ms: 700,
            create_ci_ms: 300,
            destroy_ci_ms: 300,
            destroy_gi_ms: 700,
            mode_ms: 3_000,
            reset_ms: 60_000,
        }
    }
}

impl Latencies {
    /// Of one call.
    pub fn of(&self, call: &Call) -> Millis {
        match call {
            Call::Walk => self.walk_ms,
            Call::Info { .. } => self.info_ms,
            Call::CreateGi(_) => self.create_gi_ms,
            Call::CreateCi { .. } => self.create_ci_ms,
            Call::DestroyCi { .. } => self.destroy_ci_ms,
            Call::DestroyGi { .. } => self.destroy_gi_ms,
            Call::SetMode(_) => self.mode_ms,
            Call::Reset => self.reset_ms,
        }
    }
}

/// What goes wrong with one call. The caller of the model decides when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It fails with this error and has no effect.
    Refused(Error),
    /// It has its effect, but its reply is lost.
    Mute,
    /// It takes so many milliseconds more.
    Slow(Millis),
    /// This client has taken hold of what the call is about and keeps it until it is detached.
    Held(u64),
    /// The GPU falls off the bus before it, until a reboot.
    Gone,
}

#[derive(Clone, Debug)]
struct Gi {
    instance: Instance,
    /// The one compute instance that spans it. Its id is always 0.
    uuid: Option<Name>,
}

/// A modelled GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    board: Arc<Board>,
    serial: Name,
    latencies: Latencies,
    can_reset: bool,
    mode: bool,
    pending: bool,
    lost: bool,
    instances: BTreeMap<u32, Gi>,
    /// Who holds an instance, or the GPU as such.
    clients: BTreeMap<u64, Option<u32>>,
    /// Compute instances ever made; makes UUIDs differ.
    made: u64,
}

/// What of a modelled GPU outlasts whoever drives it, as plain values: all but its clients, which
/// come and go with processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Its serial number.
    pub serial: Name,
    /// Whether the machine can reset it.
    pub can_reset: bool,
    /// Whether MIG mode is in force.
    pub mode: bool,
    /// What the mode will be after the next reset.
    pub pending: bool,
    /// Whether it fell off the bus.
    pub lost: bool,
    /// By GPU instance: its place, and the UUID of its compute instance if it has one.
    pub instances: BTreeMap<u32, (Instance, Option<Name>)>,
    /// Compute instances ever made.
    pub made: u64,
}

impl Gpu {
    /// A GPU with MIG mode off. `serial` must differ between GPUs; it goes into UUIDs. `can_reset`
    /// is false where the machine can't reset its GPUs.
    pub fn new(board: Arc<Board>, serial: Name, latencies: Latencies, can_reset: bool) -> Self {
        Self {
            board,
            serial,
            latencies,
            can_reset,
            mode: false,
            pending: false,
            lost: false,
            instances: BTreeMap::new(),
            clients: BTreeMap::new(),
            made: 0,
        }
    }

    /// It as plain values, without its clients.
    pub fn image(&self) -> Image {
        let plain = |(&gi, of): (&u32, &Gi)| (gi, (of.instance, of.uuid.clone()));
        Image {
            serial: self.serial.clone(),
            can_reset: self.can_reset,
            mode: self.mode,
            pending: self.pending,
            lost: self.lost,
            instances: self.instances.iter().map(plain).collect(),
            made: self.made,
        }
    }

    /// The GPU of an image, without clients; `None` if `board` has no such instances.
    pub fn from_image(board: Arc<Board>, latencies: Latencies, image: Image) -> Option<Self> {
        let known = |(instance, _): &(Instance, Option<Name>)| {
            let profile = board.profiles.get(usize::from(instance.profile.0));
            profile.is_some_and(|profile| profile.starts.contains(&instance.start))
        };
        if !image.instances.values().all(known) {
            return None;
        }
        let gi = |(gi, (instance, uuid))| (gi, Gi { instance, uuid });
        Some(Self {
            board,
            serial: image.serial,
            latencies,
            can_reset: image.can_reset,
            mode: image.mode,
            pending: image.pending,
            lost: image.lost,
            instances: image.instances.into_iter().map(gi).collect(),
            clients: BTreeMap::new(),
            made: image.made,
        })
    }

    /// Executes one call; also tells how long it takes, in milliseconds.
    pub fn call(&mut self, call: &Call, fault: Option<Fault>) -> (Reply, Millis) {
        let mut latency = self.latencies.of(call);
        match fault {
            Some(Fault::Refused(error)) => return (Err(error), latency),
            Some(Fault::Slow(more)) => latency += more,
            Some(Fault::Held(client)) => drop(self.clients.insert(client, call.gi())),
            Some(Fault::Gone) => self.lost = true,
            Some(Fault::Mute) | None => {}
        }
        let reply = if self.lost {
            Err(Error::Lost)
        } else {
            self.execute(call)
        };
        if fault == Some(Fault::Mute) {
            (Err(Error::Timeout), latency)
        } else {
            (reply, latency)
        }
    }

    /// What a walk finds, even on a lost GPU: for checks from outside.
    pub fn state(&self) -> State {
        let found = |(&gi, of): (&u32, &Gi)| Found {
            gi,
            instance: Some(of.instance),
            start: of.instance.start,
            size: self.board.at(of.instance.profile).size,
            cis: of.uuid.iter().map(|uuid| (0, Some(uuid.clone()))).collect(),
        };
        State {
            mode: self.mode,
            pending: self.pending,
            can_reset: self.can_reset,
            found: self.instances.iter().map(found).collect(),
        }
    }

    /// A client opens the compute instance with this UUID, or the GPU as such (work on a whole GPU,
    /// a monitor). It then stands in the way of whatever would end what it holds.
    ///
    /// # Errors
    /// The GPU is lost, or has no such compute instance.
    pub fn attach(&mut self, client: u64, uuid: Option<&Name>) -> Result<(), Error> {
        let with = |uuid: &Name| {
            self.instances
                .iter()
                .find(|(_, gi)| gi.uuid.as_ref() == Some(uuid))
        };
        let gi = match uuid {
            _ if self.lost => return Err(Error::Lost),
            Some(uuid) => Some(*with(uuid).ok_or(Error::NotFound)?.0),
            None => None,
        };
        self.clients.insert(client, gi);
        Ok(())
    }

    /// A client lets go of what it holds, if anything.
    pub fn detach(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// The clients that hold the compute instance with this UUID, or the GPU as such.
    pub fn clients(&self, uuid: Option<&Name>) -> Vec<u64> {
        let of = |gi: &Option<u32>| gi.and_then(|gi| self.instances[&gi].uuid.as_ref());
        let holds = |gi: &Option<u32>| gi.is_some() == uuid.is_some() && of(gi) == uuid;
        self.clients
            .iter()
            .filter(|(_, gi)| holds(gi))
            .map(|(&client, _)| client)
            .collect()
    }

    /// The machine reboots: instances and clients are gone, a lost GPU is back. MIG mode lasts on
    /// boards that need a reset to change it, and on no others.
    pub fn reboot(&mut self) {
        self.instances.clear();
        self.clients.clear();
        self.lost = false;
        self.pending &= self.board.mode_change == ModeChange::Reset;
        self.mode = self.pending;
    }

    fn execute(&mut self, call: &Call) -> Reply {
        match *call {
            Call::Walk => return Ok(Answer::State(self.state())),
            Call::SetMode(on) => return self.set_mode(on),
            Call::Reset => {
                if !self.can_reset {
                    return Err(Error::NotSupported);
                }
                if !self.clients.is_empty() {
                    return Err(Error::InUse);
                }
                self.instances.clear();
                self.mode = self.pending;
            }
            Call::CreateGi(instance) => return self.create_gi(instance),
            Call::CreateCi { gi } => {
                let uuid = format!("MIG-{}-{}", self.serial, self.made);
                let of = self.instances.get_mut(&gi).ok_or(Error::NotFound)?;
                if of.uuid.is_some() {
                    return Err(Error::InsufficientResources);
                }
                of.uuid = Some(Name::new(uuid).map_err(|_| Error::Unknown)?);
                self.made += 1;
                return Ok(Answer::Ci(0));
            }
            Call::Info { gi, ci } => return self.ci(gi, ci).cloned().map(Answer::Uuid),
            Call::DestroyCi { gi, ci } => {
                self.ci(gi, ci)?;
                self.unheld(gi)?.uuid = None;
            }
            Call::DestroyGi { gi } => {
                if self.unheld(gi)?.uuid.is_some() {
                    return Err(Error::InUse);
                }
                self.instances.remove(&gi);
            }
        }
        Ok(Answer::Done)
    }

    fn ci(&self, gi: u32, ci: u32) -> Result<&Name, Error> {
        let uuid = self.instances.get(&gi).and_then(|of| of.uuid.as_ref());
        uuid.filter(|_| ci == 0).ok_or(Error::NotFound)
    }

    fn unheld(&mut self, gi: u32) -> Result<&mut Gi, Error> {
        let held = self.clients.values().any(|&of| of == Some(gi));
        let of = self.instances.get_mut(&gi).ok_or(Error::NotFound)?;
        if held { Err(Error::InUse) } else { Ok(of) }
    }

    fn set_mode(&mut self, on: bool) -> Reply {
        if self.board.mode_change == ModeChange::Never {
            return Err(Error::NotSupported);
        }
        let changes = on != self.mode;
        if changes && !(self.clients.is_empty() && self.instances.is_empty()) {
            return Err(Error::InUse);
        }
        self.pending = on;
        if changes && self.board.mode_change == ModeChange::Reset {
            return Err(Error::ResetRequired);
        }
        self.mode = on;
        Ok(Answer::Done)
    }

    fn create_gi(&mut self, instance: Instance) -> Reply {
        let Some(profile) = self.board.profiles.get(usize::from(instance.profile.0)) else {
            return Err(Error::NotFound);
        };
        if !self.mode || !profile.starts.contains(&instance.start) {
            return Err(Error::NotSupported);
        }
        let present = || self.instances.values().map(|of| of.instance);
        let alike = present()
            .filter(|other| other.profile == instance.profile)
            .count();
        let engines = present()
            .map(|other| self.board.at(other.profile).engines)
            .fold(profile.engines, Engines::plus);
        let taken = present().any(|other| overlap(&self.board, other, instance));
        if taken || alike >= usize::from(profile.max) || !engines.within(self.board.engines) {
            return Err(Error::InsufficientResources);
        }
        let gi = (0..)
            .find(|id| !self.instances.contains_key(id))
            .expect("few instances");
        self.instances.insert(
            gi,
            Gi {
                instance,
                uuid: None,
            },
        );
        Ok(Answer::Gi(gi))
    }
}

/// Whether two instances of a board share a memory unit.
pub(crate) fn overlap(board: &Board, a: Instance, b: Instance) -> bool {
    meet(
        (a.start, board.at(a.profile).size),
        (b.start, board.at(b.profile).size),
    )
}

/// Whether two spans of (start, size) share a unit.
pub(crate) fn meet(a: (u8, u8), b: (u8, u8)) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}
