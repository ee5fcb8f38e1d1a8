//! The one-machine shell around the control plane: `cleave up`.
//!
//! ```text
//! people ─HTTP─▶ http ─▶ core: control + journal ─link─▶ agents
//!                  │        │ records, once durable
//!                  └──────▶ view: a second state, for questions
//! ```
//!
//! * [`api`]: what is asked and answered; all that a client needs.
//! * `core`: the loop. One batch after the other is closed, committed, and acted on.
//! * `journal`, `history`: records and what they say of jobs, in one SQLite file.
//! * `view`, `rows`: what people see; never in the way of the loop.
//! * `submit`, `caller`: the edge, where input is hostile.
//! * `link`, `relay`: the agents, and streams to and from them.
//! * [`replay`](replay()): a journal read back.

pub mod api;
mod caller;
mod core;
mod history;
mod http;
mod journal;
mod link;
mod relay;
mod replay;
mod rows;
mod submit;
mod view;

pub use replay::{Replayed, replay};

use crate::{
    core::{Core, Entry},
    http::Doors,
    journal::Journal,
    view::View,
};
use cleave_control::{BadJournal, Control, Request};
use cleave_engine::{
    planner::{ByPrice, Walk},
    state::{NoSink, State},
};
use cleave_model::{Name, event::Event, plan::Budget, policy::Policy, queue::Queue};
use rustix::fs::{FlockOperation, flock};
use std::{
    fmt, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::mpsc::{Sender, channel},
    thread,
};
use tokio::{net::UnixListener, sync::watch};

/// Steps of one plan at most; a plan that needs more goes on in the next batch.
const BUDGET: Budget = Budget { steps: 100_000 };
/// Bytes of a socket's path at most, as the kernel has it.
const LONGEST_SOCKET: usize = 107;

/// What a server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where its journal lies; made if it is not there.
    pub directory: PathBuf,
    /// The socket on which it answers.
    pub socket: PathBuf,
    /// The sockets of the agents of its nodes.
    pub agents: Vec<PathBuf>,
    /// The rules in force.
    pub policy: Policy,
    /// The tree of teams; none: one queue, `default`.
    pub queues: Vec<Queue>,
}

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The last record of the journal that it went on with; `None` for a new one.
    pub restored: Option<u64>,
    /// Jobs that are not over.
    pub unfinished: u64,
}

/// A server that has stopped because it was told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Jobs that go on running without it.
    pub running: u64,
}

/// Why a server does not run.
#[derive(Debug)]
pub enum Error {
    /// Something can't be made or used: what, and why.
    Io(String, io::Error),
    /// Another server has the directory.
    Busy(PathBuf),
    /// Another server answers on the socket.
    Taken(PathBuf),
    /// The path of the socket is too long for the kernel.
    LongSocket(PathBuf),
    /// The journal can't be used, or not written any more.
    Journal(String),
    /// A part of the server ended by a fault of ours.
    Broken,
    /// Somebody else could change what is in this directory.
    Open(PathBuf),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, why) => write!(f, "{what}: {why}"),
            Self::Busy(path) => write!(
                f,
                "another `cleave up` runs in {}: end it first, or give another --dir",
                path.display()
            ),
            Self::Taken(path) => write!(
                f,
                "another `cleave up` answers at {}: end it first, or give another --socket",
                path.display()
            ),
            Self::LongSocket(path) => write!(
                f,
                "{}: a socket's path has at most {LONGEST_SOCKET} bytes: give a shorter --socket",
                path.display()
            ),
            Self::Journal(why) => f.write_str(why),
            Self::Broken => f.write_str(
                "a part of the server broke (its message is above): nothing is lost, \
                 start it again",
            ),
            Self::Open(path) => write!(
                f,
                "{}: belongs to somebody else, or others may write to it: whoever can change the \
                 journal can run anything as anybody; make it yours alone (chmod 700)",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<journal::Broken> for Error {
    fn from(broken: journal::Broken) -> Self {
        Self::Journal(broken.to_string())
    }
}

impl From<BadJournal> for Error {
    fn from(bad: BadJournal) -> Self {
        Self::Journal(bad.to_string())
    }
}

/// Serves until SIGINT or SIGTERM, or until something fatal; `ready` is called once requests are
/// answered.
///
/// # Errors
/// The server can't begin, or the journal can't be written any more. Everything that anybody was
/// told is in the journal even then.
pub fn run(config: Config, ready: impl FnOnce(&Ready)) -> Result<Summary, Error> {
    let directory = &config.directory;
    make_directory(directory, 0o700)?;
    keep_private(directory)?;
    let _lock = lock(directory)?;
    let path = directory.join("journal.sqlite");
    let journal = Journal::open(&path)?;
    let records = journal.load()?;
    let restored = records.last().map(|last| last.number);
    let planner = Walk::new(ByPrice::default());
    let queues = queues(&config.queues);
    let (control, state) = if records.is_empty() {
        let mut genesis = vec![Event::Policy(config.policy.clone())];
        genesis.extend(queues.iter().cloned().map(Event::Queue));
        (Control::new(planner, BUDGET, genesis), State::new())
    } else {
        let control = Control::restore(planner, BUDGET, records, &mut NoSink)?;
        let state = control.state().clone();
        (control, state)
    };
    let unfinished = state.workloads().count() as u64;

    let listener = listen(&config.socket)?;
    let (to_core, from_all) = channel();
    let (to_view, heard) = channel();
    let (seen, changes) = watch::channel(state.batch());
    let db = journal.reader()?;
    let view = View::new(
        state,
        db,
        journal.tickets().clone(),
        config.agents.clone(),
        directory.clone(),
        seen,
    );
    let bell = Bell(to_core.clone());
    let follower = thread::spawn(move || {
        let _rung_at_the_end = bell;
        view.run(&heard);
    });
    let doors = Doors {
        core: to_core.clone(),
        view: to_view.clone(),
        seen: changes,
    };
    let mut core = Core::new(control, journal, to_view, to_core.clone());
    core.request(0, Request::Policy(config.policy.clone()));
    for queue in queues {
        core.request(0, Request::Queue(queue));
    }
    core.expect(config.agents.len());
    for (agent, path) in config.agents.iter().enumerate() {
        link::keep(agent, path.clone(), to_core.clone());
    }
    outside(listener, doors, to_core)?;
    ready(&Ready {
        restored,
        unfinished,
    });
    core.run(&from_all)?;
    core.journal.settle();
    let _ = fs::remove_file(&config.socket);
    if follower.is_finished() {
        return Err(Error::Broken);
    }
    let held = core.control.state().workloads();
    let running = held.filter(|(_, work)| work.holds()).count() as u64;
    Ok(Summary { running })
}

/// Tells the loop to stop when its holder ends, however it does.
struct Bell(Sender<Entry>);

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = self.0.send(Entry::Stop);
    }
}

fn queues(given: &[Queue]) -> Vec<Queue> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let name = Name::new("default").expect("a word is a name");
    vec![Queue {
        name,
        parent: None,
        quota: Default::default(),
        limit: Default::default(),
        weight: 1,
        priority: 0,
    }]
}

/// A thread of its own for everything that comes from outside.
fn outside(
    listener: std::os::unix::net::UnixListener,
    doors: Doors,
    core: Sender<Entry>,
) -> Result<(), Error> {
    let io = |why| Error::Io("the server's event loop".into(), why);
    listener.set_nonblocking(true).map_err(io)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io)?;
    let (listener, mut interrupt, mut end) = {
        let _inside = runtime.enter();
        use tokio::signal::unix::{SignalKind, signal};
        (
            UnixListener::from_std(listener).map_err(io)?,
            signal(SignalKind::interrupt()).map_err(io)?,
            signal(SignalKind::terminate()).map_err(io)?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = http::serve(listener, doors) => {}
                _ = interrupt.recv() => {}
                _ = end.recv() => {}
            }
            let _ = core.send(Entry::Stop);
        });
    });
    Ok(())
}

fn make_directory(path: &Path, mode: u32) -> Result<(), Error> {
    let io = |why| Error::Io(path.display().to_string(), why);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(io)
}

/// Sees that nobody else can write to a directory that is there, and that nobody else can read
/// what this process makes from now on: what people run is theirs.
///
/// # Errors
/// It belongs to somebody else, or others may write to it.
pub fn keep_private(directory: &Path) -> Result<(), Error> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let data = fs::metadata(directory);
    let data = data.map_err(|why| Error::Io(directory.display().to_string(), why))?;
    let own = rustix::process::geteuid().as_raw();
    match data.uid() == own && data.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(Error::Open(directory.into())),
    }
}

/// The lock of a directory, held until it is dropped.
fn lock(directory: &Path) -> Result<fs::File, Error> {
    let path = directory.join("lock");
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|why| Error::Io(path.display().to_string(), why))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy(directory.into())),
        Err(why) => Err(Error::Io(path.display().to_string(), why.into())),
    }
}

/// The socket, in place of one on which nobody answers any more. Everybody may connect: what they
/// may do depends on who they are.
fn listen(path: &Path) -> Result<std::os::unix::net::UnixListener, Error> {
    use std::os::unix::net::{UnixListener, UnixStream};
    if path.as_os_str().len() > LONGEST_SOCKET {
        return Err(Error::LongSocket(path.into()));
    }
    let io = |why| Error::Io(path.display().to_string(), why);
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_directory(above, 0o755)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Error::Taken(path.into()));
    }
    match fs::symlink_metadata(path) {
        Ok(old) if std::os::unix::fs::FileTypeExt::is_socket(&old.file_type()) => {
            fs::remove_file(path).map_err(io)?;
        }
        Ok(_) => {
            let why = io::Error::other("there is something else than a socket: move it away");
            return Err(io(why));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(io)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(io)?;
    Ok(listener)
}
