//! A node under test: the real binary in a directory of its own, and a control plane's end of it.

#![allow(dead_code)]

use cleave_device::table::AttemptId;
use cleave_model::{
    Name, WorkerId,
    board::{Catalogue, Instance},
    lease::{Hold, Slice},
    message::{Message, Order},
    observation::{MessageNo, NodeReport, WorkerState},
};
use cleave_wire::{
    agent::{Logs, Note, Open, PROTOCOL, Said, Told, Welcome},
    frame::{self, Frame, Kind},
    job::{Job, Run},
    stream::Down,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Long enough for the slowest machine; nothing waits that long where all is well.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The binary, built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let here = std::env::current_exe().expect("this test has a path");
        let profile = here.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
        let mut build = Command::new(env!("CARGO"));
        build
            .args([
                "build",
                "--quiet",
                "--package",
                "cleave-node",
                "--example",
                "cleave-node",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_DIR", profile.parent().expect("target"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success());
        profile.join("examples/cleave-node")
    })
}

/// Waits until `f` gives something.
pub fn wait<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = f() {
            return found;
        }
        assert!(Instant::now() < until, "never came: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A node under test.
pub struct Site {
    pub dir: PathBuf,
    arguments: Vec<String>,
    agent: Option<Child>,
    link: Option<UnixStream>,
    pub welcome: Option<Welcome>,
    pub report: Option<NodeReport>,
    pub notes: Vec<Note>,
    number: u64,
}

impl Site {
    /// A node with an agent that runs.
    pub fn new(arguments: &[&str]) -> Self {
        let mut site = Self::idle(arguments);
        site.start(&[]);
        site.connect();
        site
    }

    /// A node whose agent has not been started.
    pub fn idle(arguments: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let dir = std::env::temp_dir().join(format!("cleave-{}-{count}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a directory");
        Self {
            dir,
            arguments: arguments.iter().map(|text| text.to_string()).collect(),
            agent: None,
            link: None,
            welcome: None,
            report: None,
            notes: Vec::new(),
            number: 0,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    /// The agent's command, and what starts it.
    fn command(&self, before: &[&str], binary: &str) -> Command {
        let mut all: Vec<&str> = before.to_vec();
        all.push(binary);
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).args(["--name", "n0"]);
        command.arg("--dir").arg(self.dir.join("agent"));
        command.arg("--socket").arg(self.socket());
        command.args(&self.arguments).stdin(Stdio::null());
        command
    }

    /// Starts the agent, to die at a place.
    pub fn start(&mut self, environment: &[(&str, &str)]) {
        let mut command = self.command(&[], binary().to_str().expect("a path"));
        command.envs(environment.iter().copied());
        self.agent = Some(command.spawn().expect("the agent starts"));
    }

    /// Starts a copy of the agent through another command.
    pub fn start_as(&mut self, before: &[&str], binary: &str) {
        let mut command = self.command(before, binary);
        self.agent = Some(command.spawn().expect("the agent starts"));
    }

    /// Connects as a control plane; tells whether the agent lived to greet.
    pub fn connect(&mut self) -> bool {
        let (socket, agent) = (self.socket(), &mut self.agent);
        let greeted = wait("a greeting", || {
            // One that was killed may still be listened for, for a moment: by a child that it was
            // just starting.
            let mut link = UnixStream::connect(&socket).ok();
            let link = link.take().and_then(|mut link| {
                link.set_read_timeout(Some(PATIENCE)).ok()?;
                frame::write(&mut link, &Frame::message(&Open::Control(PROTOCOL))).ok()?;
                let first = frame::read(&mut link).ok()??;
                match first.parse().expect("a message") {
                    Said::Welcome(welcome) => Some((link, welcome)),
                    other => panic!("not greeted: {other:?}"),
                }
            });
            let agent = agent.as_mut().expect("an agent");
            let gone = agent.try_wait().expect("a child").is_some();
            (link.is_some() || gone).then_some(link)
        });
        let alive = greeted.is_some();
        if let Some((link, welcome)) = greeted {
            (self.link, self.welcome) = (Some(link), Some(welcome));
        }
        alive
    }

    /// Says an order; tells whether somebody took it.
    pub fn order(&mut self, order: Order, job: Option<Job>) -> bool {
        self.number += 1;
        let no = MessageNo {
            incarnation: 1,
            number: self.number,
        };
        let told = Told::Order(Message { no, order }, job.map(Box::new));
        let link = self.link.as_mut().expect("a link");
        frame::write(link, &Frame::message(&told)).is_ok()
    }

    pub fn place(&mut self, name: &str, attempt: u32, slices: Vec<Slice>, job: Job) -> AttemptId {
        let id = id(name, attempt);
        self.order(place(&id, slices), Some(job));
        self.until(&id, |_| true);
        id
    }

    pub fn evict(&mut self, id: &AttemptId, grace_ms: u64) -> bool {
        let (worker, attempt) = (id.worker.clone(), id.attempt);
        self.order(
            Order::Evict {
                worker,
                attempt,
                grace_ms,
            },
            None,
        )
    }

    pub fn forget(&mut self, id: &AttemptId) -> bool {
        let (worker, attempt) = (id.worker.clone(), id.attempt);
        self.order(Order::Forget { worker, attempt }, None)
    }

    /// Takes in one thing that is said; `false`: the link is gone.
    pub fn hear(&mut self) -> bool {
        let link = self.link.as_mut().expect("a link");
        match frame::read(link) {
            Ok(Some(frame)) => match frame.parse().expect("a message") {
                Said::Report(report) => self.report = Some(report),
                Said::Note(note) => self.notes.push(note),
                other => panic!("unexpected: {other:?}"),
            },
            Ok(None) => return false,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing is said"),
            Err(_) => return false,
        }
        true
    }

    /// The state of an attempt by the last report.
    pub fn state(&self, id: &AttemptId) -> Option<WorkerState> {
        let workers = &self.report.as_ref()?.workers;
        let mut found = workers.iter().filter(|of| of.worker == id.worker);
        Some(found.find(|of| of.attempt == id.attempt)?.state)
    }

    /// Whether the last report reflects all that was said.
    pub fn heard_all(&self) -> bool {
        let heard = self.report.as_ref().map(|report| report.heard.number);
        heard == Some(self.number)
    }

    /// Hears until an attempt is in such a state and all that was said is heard; `None`: the link
    /// is gone.
    pub fn until(
        &mut self,
        id: &AttemptId,
        wanted: fn(WorkerState) -> bool,
    ) -> Option<WorkerState> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.state(id) {
                Some(state) if self.heard_all() && wanted(state) => return Some(state),
                other => assert!(
                    Instant::now() < until,
                    "{id:?} is {other:?}; {:?}",
                    self.notes
                ),
            }
            if !self.hear() {
                return None;
            }
        }
    }

    /// Hears until an attempt is over.
    pub fn over(&mut self, id: &AttemptId) -> WorkerState {
        let is_over = |state| matches!(state, WorkerState::Freed(_) | WorkerState::Failed(_));
        self.until(id, is_over).expect("the link lasts")
    }

    /// Hears until an attempt is forgotten.
    pub fn forgotten(&mut self, id: &AttemptId) -> bool {
        while self.state(id).is_some() || !self.heard_all() {
            if !self.hear() {
                return false;
            }
        }
        true
    }

    pub fn running(&mut self, id: &AttemptId) {
        self.until(id, |state| state == WorkerState::Running)
            .expect("the link lasts");
    }

    pub fn pid(&self) -> u32 {
        self.agent.as_ref().expect("an agent").id()
    }

    /// Ends the agent as by `kill -9`.
    pub fn kill(&mut self) {
        let mut agent = self.agent.take().expect("an agent");
        agent.kill().expect("a child");
        agent.wait().expect("a child");
        self.link = None;
    }

    /// Waits until the agent has died by itself; gives its code or minus its signal.
    pub fn died(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let mut agent = self.agent.take().expect("an agent");
        self.link = None;
        let status = wait("the agent's end", || agent.try_wait().expect("a child"));
        status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or_default())
    }

    /// Asks for output.
    pub fn open(&self, open: &Open) -> Client {
        let mut stream = UnixStream::connect(self.socket()).expect("the agent listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        frame::write(&mut stream, &Frame::message(open)).expect("the agent listens");
        Client {
            stream,
            out: Vec::new(),
            err: Vec::new(),
            gap: 0,
            end: None,
        }
    }

    pub fn logs(&self, id: &AttemptId, tail: Option<u64>, follow: bool) -> Client {
        let id = id.clone();
        self.open(&Open::Logs(Logs { id, tail, follow }))
    }

    /// What an attempt has written.
    pub fn written(&self, id: &AttemptId) -> Client {
        let mut client = self.logs(id, None, true);
        client.finish();
        client
    }

    /// The simulated devices: by GPU its instances.
    pub fn instances(&self) -> Vec<usize> {
        let mut store = cleave_node::store::Store::open_to_look(&self.dir.join("agent"))
            .expect("the store opens");
        let devices = store.devices().expect("the store is read");
        devices
            .iter()
            .map(|(_, _, image)| image.instances.len())
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for pid in shims(&self.dir) {
            end(pid);
        }
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// One who reads output.
pub struct Client {
    pub stream: UnixStream,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub gap: u64,
    pub end: Option<Down>,
}

impl Client {
    /// Takes in one frame; `false`: that was all.
    pub fn read(&mut self) -> bool {
        let Some(frame) = frame::read(&mut self.stream).expect("a stream that ends well") else {
            return false;
        };
        match frame.kind {
            Kind::Out => self.out.extend(frame.payload),
            Kind::Err => self.err.extend(frame.payload),
            Kind::In => panic!("input came"),
            Kind::Message => match frame.parse().expect("a message") {
                Down::Gap(bytes) => self.gap += bytes,
                other => self.end = Some(other),
            },
        }
        true
    }

    pub fn finish(&mut self) {
        while self.end.is_none() && self.read() {}
    }

    /// Reads until this was written.
    pub fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.out).contains(text) {
            assert!(self.read(), "never written: {text}; {:?}", self.text());
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let payload = bytes.to_vec();
        let frame = Frame {
            kind: Kind::In,
            payload,
        };
        frame::write(&mut self.stream, &frame).expect("the agent listens");
    }
}

pub fn id(name: &str, attempt: u32) -> AttemptId {
    let workload = Name::new(name).expect("a name");
    AttemptId {
        worker: WorkerId { workload, index: 0 },
        attempt,
    }
}

pub fn place(id: &AttemptId, slices: Vec<Slice>) -> Order {
    Order::Place {
        worker: id.worker.clone(),
        attempt: id.attempt,
        hold: Hold {
            node: Name::new("n0").expect("a name"),
            cpu_milli: 1_000,
            memory_bytes: 1 << 30,
            slices,
        },
    }
}

/// A slice that has to be cut from a simulated A100-80GB.
pub fn slice(gpu: u8, profile: &str, start: u8) -> Slice {
    let catalogue = Catalogue::builtin();
    let board = catalogue.board(catalogue.find("A100-80GB").expect("a board"));
    let profile = board.profile(profile).expect("a profile");
    Slice {
        gpu,
        instance: Some(Instance { start, profile }),
        share: None,
    }
}

/// A shell script as a job of root's.
pub fn script(text: &str) -> Job {
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    Job {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        run: std::sync::Arc::new(Run {
            argv: vec!["sh".into(), "-c".into(), text.into()],
            env: BTreeMap::from([path]),
            directory: "/".into(),
            umask: 0o022,
            ..Run::default()
        }),
        workers: 1,
        array: None,
    }
}

/// Processes whose command line names a directory, as shims' do.
pub fn shims(dir: &Path) -> Vec<i32> {
    let dir = format!("{}/", dir.display());
    processes(|line| line.contains("shim") && line.contains(&dir))
}

/// Processes by their command line, NUL for space.
pub fn processes(wanted: impl Fn(&str) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let command = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        wanted(&String::from_utf8_lossy(&line).replace('\0', " "))
    };
    numbers.filter(command).collect()
}

/// Ends a process as by `kill -9`.
pub fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
