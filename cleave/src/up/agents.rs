//! The agents of the nodes: started, adopted, started again, ended with the server.

use super::{pool::Pool, private};
use crate::{places, screen};
use anyhow::Context;
use rustix::{
    net::sockopt::socket_peercred,
    process::{Pid, Signal, kill_process, test_kill_process},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::{fs::OpenOptionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The program of an agent.
const PROGRAM: &str = "cleave-node";
/// How often an agent is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Wait before an agent is started again, the first time and at most.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// An agent that lived so long has recovered.
const SOUND: Duration = Duration::from_secs(60);
/// How long an agent may take to end.
const ENDING: Duration = Duration::from_secs(10);
/// Bytes of an agent's log before it is begun anew, and of it that are searched for a last line.
const LOG: u64 = 10 << 20;

/// How agents are started.
#[derive(Clone)]
pub struct Launch {
    /// Finds the program.
    pub program: fn() -> anyhow::Result<PathBuf>,
    /// The server's directory; each agent has one in it.
    pub directory: PathBuf,
    /// How much faster than real GPUs its GPUs are.
    pub speed: f64,
    /// Whether root may have jobs.
    pub root_jobs: bool,
}

/// Agents that live from their start until this is dropped.
#[derive(Default)]
pub struct Agents {
    over: Arc<AtomicBool>,
    keepers: Vec<Keeper>,
    threads: Vec<JoinHandle<()>>,
}

impl Agents {
    /// An agent for each node, none of them started; their sockets.
    pub fn new(launch: &Launch, pool: &Pool) -> anyhow::Result<(Self, Vec<PathBuf>)> {
        let program = (launch.program)()?;
        let mut agents = Self::default();
        let mut sockets = Vec::new();
        for name in pool.names() {
            let home = launch.directory.join(&name);
            private(&home)?;
            let socket = socket(&home);
            places::check_socket(&socket)?;
            let mut arguments: Vec<std::ffi::OsString> = vec![
                "--name".into(),
                name.clone().into(),
                "--dir".into(),
                home.clone().into(),
                "--socket".into(),
                socket.clone().into(),
                "--sim".into(),
                pool.of_node().into(),
                "--sim-speed".into(),
                launch.speed.to_string().into(),
            ];
            if launch.root_jobs {
                arguments.push("--allow-root-jobs".into());
            }
            sockets.push(socket);
            agents.keepers.push(Keeper {
                name,
                home,
                program: program.clone(),
                arguments,
                over: Arc::clone(&agents.over),
            });
        }
        Ok((agents, sockets))
    }

    /// Starts them, or adopts those that are alive.
    pub fn start(&mut self) {
        for keeper in self.keepers.drain(..) {
            self.threads.push(thread::spawn(move || keeper.keep()));
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // One that broke has told so.
            let _ = thread.join();
        }
    }
}

/// The agent's program: beside this one, or on the path.
pub fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path")?;
    let beside = own.parent().map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = beside.into_iter().chain(std::env::split_paths(&path));
    let found = places
        .map(|place| place.join(PROGRAM))
        .find(|file| file.is_file());
    found.with_context(|| {
        format!(
            "no `{PROGRAM}` beside {} nor on the path; build both with\n  \
             cargo build --release -p cleave",
            own.display()
        )
    })
}

fn socket(home: &Path) -> PathBuf {
    home.join("agent.sock")
}

/// The process that answers on an agent's socket, if one does.
fn alive(home: &Path) -> Option<Pid> {
    let stream = UnixStream::connect(socket(home)).ok()?;
    Some(socket_peercred(&stream).ok()?.pid)
}

/// Ends the agent of a node, if one is alive.
pub fn end(home: &Path) -> anyhow::Result<()> {
    let Some(pid) = alive(home) else {
        return Ok(());
    };
    tell(pid, || test_kill_process(pid).is_err());
    anyhow::ensure!(
        alive(home).is_none(),
        "{}: its agent (process {}) does not end: end it first",
        home.display(),
        pid.as_raw_nonzero()
    );
    Ok(())
}

/// Asks a process to end and waits until it `ended`, for a while.
fn tell(pid: Pid, mut ended: impl FnMut() -> bool) {
    // One that is gone already has ended.
    let _ = kill_process(pid, Signal::TERM);
    let since = Instant::now();
    while !ended() && since.elapsed() < ENDING {
        thread::sleep(LOOK);
    }
}

/// Keeps one agent alive.
struct Keeper {
    name: String,
    home: PathBuf,
    program: PathBuf,
    arguments: Vec<std::ffi::OsString>,
    over: Arc<AtomicBool>,
}

impl Keeper {
    fn keep(&self) {
        let mut wait = FIRST_WAIT;
        while !self.is_over() {
            let began = Instant::now();
            let how = match alive(&self.home) {
                Some(pid) => {
                    self.watch(pid);
                    "its process is gone".into()
                }
                None => match self.spawn() {
                    Ok(child) => self.stay(child),
                    Err(why) => format!("{}: {why}", self.program.display()),
                },
            };
            if self.is_over() {
                return;
            }
            if began.elapsed() > SOUND {
                wait = FIRST_WAIT;
            }
            let last = last_line(&self.log()).map_or_else(String::new, |line| format!(": {line}"));
            screen::complain(&format!(
                "cleave: the agent of {} ended ({how}){last}; starting it again\n  its log: {}",
                self.name,
                self.log().display()
            ));
            self.pause(wait);
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn pause(&self, wait: Duration) {
        let since = Instant::now();
        while !self.is_over() && since.elapsed() < wait {
            thread::sleep(LOOK.min(wait));
        }
    }

    fn log(&self) -> PathBuf {
        self.home.join("agent.log")
    }

    fn spawn(&self) -> io::Result<Child> {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG) {
            fs::rename(&path, path.with_extension("log.1"))?;
        }
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        // Ctrl-C is for the server, which then ends its agents.
        command.process_group(0).spawn()
    }

    /// Stays with an agent of our own until it ends, or ends it; how it ended.
    fn stay(&self, mut child: Child) -> String {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Err(why) => return why.to_string(),
                Ok(None) if self.is_over() => {
                    if let Some(pid) = Pid::from_raw(child.id() as i32) {
                        tell(pid, || !matches!(child.try_wait(), Ok(None)));
                    }
                    return String::new();
                }
                Ok(None) => thread::sleep(LOOK),
            }
        }
    }

    /// The same with one that somebody else started.
    fn watch(&self, pid: Pid) {
        let gone = || test_kill_process(pid).is_err();
        while !gone() {
            if self.is_over() {
                return tell(pid, gone);
            }
            thread::sleep(LOOK);
        }
    }
}

/// The last line of a log, if it has one.
fn last_line(path: &Path) -> Option<String> {
    use io::{Read, Seek, SeekFrom};
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(1_000)))
        .ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}
