//! The beginning of an agent: one per directory, what it finds there, and who is still alive.

use super::{Agent, Event, Running, watch};
use crate::{
    args::Arguments,
    cgroup::Cgroups,
    devices::{self, Devices},
    home::Home,
    lobby::{Lobby, Visit},
    output::Live,
    signals,
    store::Store,
    task::Surroundings,
};
use cleave_device::{
    hands::{Hands, Input, Settings, Start},
    procedure::Patience,
    table::{Attempt, AttemptId, Table},
};
use cleave_model::{Name, node::Node};
use cleave_wire::{
    agent::{PROTOCOL, Welcome},
    job::Bounds,
};
use rustix::{
    fs::{FlockOperation, Mode, flock},
    process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, setsid, umask},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
        mpsc::sync_channel,
    },
    thread,
    time::{Duration, Instant},
};

/// What a simulated GPU brings along: milli-cores and bytes of host memory.
const CPU_MILLI: u64 = 32_000;
const MEMORY: u64 = 256 << 30;
const PODS: u32 = 4_096;
/// Bytes of a socket's path, without its end (`sockaddr_un`, unix(7)).
const SOCKET: usize = 107;
/// Events that wait for the loop at most; who comes with more waits.
const EVENTS: usize = 1_024;

/// How long what a killed agent had may take to become free.
const MOMENT: Duration = Duration::from_secs(1);

/// Runs an agent until it is told to stop.
///
/// # Errors
/// It can't start, or can't go on; why, and the way out.
pub fn run(arguments: Arguments) -> Result<(), String> {
    // It belongs to nobody's terminal. Fails for one that leads a group, which is as good.
    let _ = setsid();
    let stops = signals::hold_stops();
    umask(Mode::from_raw_mode(0o077));
    let open_files = raise_open_files();
    let dir = arguments.dir.as_path();
    let Some(sim) = &arguments.sim else {
        return Err(
            "real GPUs come with NVML, which this release does not speak yet: pass --sim \
             COUNTxBOARD for simulated ones"
                .into(),
        );
    };
    let boards = devices::boards(sim)?;
    if arguments.socket.as_os_str().len() > SOCKET {
        return Err(format!(
            "{}: the path of a socket has {SOCKET} bytes at most",
            arguments.socket.display()
        ));
    }
    make_dir(dir)?;
    let dir = &fs::canonicalize(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let _lock = lock(dir)?;
    let mut store = Store::open(dir).map_err(|e| e.to_string())?;
    let owner = store
        .node(arguments.name.as_str())
        .map_err(|e| e.to_string())?;
    if arguments.name != *owner {
        return Err(format!(
            "{} belongs to node {owner}: use that --name, or another --dir",
            dir.display()
        ));
    }
    let devices = Devices::open(&mut store, &arguments.name, boards.clone(), arguments.speed)?;
    store.drop_stray_jobs().map_err(|e| e.to_string())?;
    let table = store.table().map_err(|e| e.to_string())?;
    let (cgroups, mut notes) = Cgroups::set_up(dir);
    let own = geteuid();
    if !own.is_root() {
        notes.push(format!(
            "only user {} can have jobs here: run the agent as root to serve several users",
            own.as_raw()
        ));
    }

    let around = Surroundings {
        node: arguments.name.clone(),
        gpus: devices.uuids(),
        simulated: true,
        open_files,
    };
    let settings = Settings {
        node: arguments.name.clone(),
        boards: boards.clone(),
        patience: Patience::default(),
        adopt: true,
    };
    let count = boards.len() as u64;
    let name = |text: &str| Name::new(text).map_err(|e| e.to_string());
    let node = Node {
        name: arguments.name.clone(),
        cpu_milli: CPU_MILLI * count,
        memory_bytes: MEMORY * count,
        pods: PODS,
        gpus: boards
            .iter()
            .map(|board| name(&board.name))
            .collect::<Result<_, _>>()?,
        links: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        pool: name("local")?,
        price_micros: None,
    };
    let own = own.as_raw();
    let welcome = Welcome {
        protocol: PROTOCOL,
        node,
        simulated: true,
        uid: own,
        root_jobs: arguments.root_jobs,
        notes,
    };

    let (events, coming) = sync_channel(EVENTS);
    let live = Live::default();
    // Whoever is alive is found out below; these are nobody's hands until then.
    let hands = Hands::start(settings.clone(), Table::default(), 0, &[]).0;
    let mut agent = Agent {
        dir: dir.clone(),
        store,
        devices,
        settings,
        around,
        cgroups,
        root_jobs: arguments.root_jobs,
        hands,
        inputs: VecDeque::new(),
        running: BTreeMap::new(),
        live: live.clone(),
        link: None,
        notes: VecDeque::new(),
        replies: BTreeMap::new(),
        calls: 0,
        life: 0,
        begun: Instant::now(),
        report_at: 0,
        prune_at: 0,
        events: events.clone(),
    };
    let alive = agent.adopt(&table)?;
    let listener = listen(&arguments)?;
    let lobby = Arc::new(Lobby {
        dir: dir.clone(),
        welcome,
        users: [own].into_iter().chain(arguments.control_uid).collect(),
        live,
        visits: events.clone(),
        wrap: |visit: Visit| Event::Visit(visit),
        open: AtomicUsize::new(0),
        links: AtomicU64::new(0),
    });
    let served = Arc::clone(&lobby);
    let threads = |e: io::Error| format!("no thread can be started: {e}");
    thread::Builder::new()
        .spawn(move || served.accept(&listener))
        .map_err(threads)?;
    let stop = move || {
        let _ = stops.wait();
        let _ = events.send(Event::Stop);
    };
    thread::Builder::new().spawn(stop).map_err(threads)?;

    let (hands, effects) = Hands::start(agent.settings.clone(), table, agent.now(), &alive);
    agent.hands = hands;
    let outcome = agent.carry_out(effects).and_then(|()| agent.serve(&coming));
    // Nobody else is here: the lock is held.
    let _ = fs::remove_file(&arguments.socket);
    outcome.map_err(|e| e.to_string())
}

impl Agent {
    /// Finds out which attempts have processes. Those that ended meanwhile count as alive until the
    /// hands hear of their end.
    fn adopt(&mut self, table: &Table) -> Result<Vec<AttemptId>, String> {
        let mut alive = Vec::new();
        for (id, attempt) in &table.attempts {
            if !attempt.stage.has_process() {
                continue;
            }
            let Some((serial, uid)) = self.store.home(id).map_err(|e| e.to_string())? else {
                continue;
            };
            let home = Home::of(&self.dir, serial);
            let cgroup = self.cgroups.as_ref().map(|groups| groups.of(serial));
            if home.is_alive() {
                self.hold(table, id, attempt, serial);
                self.live.lock().insert(serial);
                let shim = watch::greet(&home);
                let watched = watch::Watched {
                    id: id.clone(),
                    serial,
                    uid,
                    home,
                    cgroup,
                    events: self.events.clone(),
                };
                // No child of this process, so there is none to hand over.
                watched
                    .watch(shim.as_ref())
                    .map(drop)
                    .map_err(|e| format!("no thread can be started: {e}"))?;
                self.running.insert(id.clone(), Running { serial, shim });
                alive.push(id.clone());
            } else if let Some(code) = home.exit_code() {
                cgroup
                    .as_deref()
                    .into_iter()
                    .for_each(crate::cgroup::remove);
                alive.push(id.clone());
                self.inputs.push_back(Input::Exited(id.clone(), code));
            } else {
                watch::end_left(uid, &home, cgroup.as_deref());
            }
        }
        if let Some(cgroups) = &self.cgroups {
            cgroups.sweep(&self.live.lock());
        }
        Ok(alive)
    }

    /// The processes of an attempt have hold of their devices.
    fn hold(&mut self, table: &Table, id: &AttemptId, attempt: &Attempt, serial: u64) {
        let uuid = |slice: &cleave_model::lease::Slice| {
            let cut = table.cuts.get(&(slice.gpu, slice.instance?.start))?;
            cut.uuid.clone()
        };
        let start = Start {
            id: id.clone(),
            hold: attempt.hold.clone(),
            uuids: attempt.hold.slices.iter().map(uuid).collect(),
        };
        if let Err(e) = self.devices.attach(serial, &start) {
            let text = format!("its GPU is not as it was left: {e}");
            self.tell(Some(id.clone()), None, text);
        }
    }
}

/// Lets the agent have as many files open as it may; returns the bounds before.
fn raise_open_files() -> Bounds {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    // With fewer it serves fewer.
    let _ = setrlimit(Resource::Nofile, all);
    Bounds {
        soft: current,
        hard: maximum,
    }
}

/// Makes the directory, or sees that nobody else can write to it.
fn make_dir(dir: &Path) -> Result<(), String> {
    let failed = |e: io::Error| format!("{}: {e}", dir.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let data = fs::metadata(dir).map_err(failed)?;
    if data.uid() != geteuid().as_raw() || data.mode() & 0o022 != 0 {
        return Err(format!(
            "{} could be written to by others: give the agent a directory of its own (chmod 700)",
            dir.display()
        ));
    }
    Ok(())
}

/// Whether something becomes true in a moment. A child that an agent was starting when it was
/// killed has what was the agent's until it is under way.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + MOMENT;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(MOMENT / 100);
    }
}

/// There is one agent in a directory.
fn lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let mut file = options.open(&path).map_err(failed)?;
    let locked = || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !soon(locked) {
        let mut pid = String::new();
        let _ = file.read_to_string(&mut pid);
        let (dir, pid) = (dir.display(), pid.trim());
        return Err(format!("another agent runs in {dir} (pid {pid})"));
    }
    file.set_len(0).map_err(failed)?;
    write!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Opens the socket. One that is left over is replaced.
fn listen(arguments: &Arguments) -> Result<UnixListener, String> {
    let path = &arguments.socket;
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    match fs::symlink_metadata(path) {
        Ok(data) if !data.file_type().is_socket() => {
            return Err(format!("{} is there and is no socket", path.display()));
        }
        Ok(_) if !soon(|| UnixStream::connect(path).is_err()) => {
            return Err(format!("somebody answers at {} already", path.display()));
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let mode = if arguments.control_uid.is_some() {
        0o660
    } else {
        0o600
    };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    if let Some(uid) = arguments.control_uid
        && geteuid().is_root()
    {
        std::os::unix::fs::chown(path, Some(uid), None).map_err(failed)?;
    }
    Ok(listener)
}
