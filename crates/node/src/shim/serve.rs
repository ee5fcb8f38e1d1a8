//! The shim's socket: who watches, who ends the job, who is at its terminal.

use super::{
    ask::{Ask, Tell},
    job::Job,
    signal_all,
};
use cleave_wire::frame::{self, Frame, Kind};
use rustix::{
    net::sockopt::socket_peercred,
    process::{Signal, geteuid},
};
use std::{
    fs,
    io::Write,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a terminal may be without anybody before the job hears that it hung up.
const HANG_UP: Duration = Duration::from_secs(60);
const WRITE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Starting,
    Running(Arc<Job>, Option<PathBuf>),
    Failed(String),
}

#[derive(Debug, Default)]
struct Terminal {
    present: usize,
    /// Grows with each that comes.
    visits: u64,
}

/// Where a shim is spoken to.
#[derive(Debug, Default)]
pub struct Desk {
    stage: Mutex<Stage>,
    changed: Condvar,
    terminal: Mutex<Terminal>,
    open: AtomicUsize,
    told: Mutex<bool>,
    heard: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// The job runs.
    pub fn started(&self, job: Job, cgroup: Option<PathBuf>) {
        *lock(&self.stage) = Stage::Running(Arc::new(job), cgroup);
        self.changed.notify_all();
    }

    /// The job will never run; waits until somebody was told, at most so long.
    pub fn failed(&self, why: String, patience: Duration) {
        *lock(&self.stage) = Stage::Failed(why);
        self.changed.notify_all();
        let told = lock(&self.told);
        drop(self.heard.wait_timeout_while(told, patience, |told| !*told));
    }

    /// Sends a signal to all processes of the job. Tells whether that was possible.
    pub fn signal(&self, signal: Signal) -> bool {
        if let (Signal::KILL, Stage::Running(_, Some(cgroup))) = (signal, &*lock(&self.stage)) {
            // Absent on kernels before 5.14; the search does it then.
            let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        }
        signal_all(signal)
    }

    /// Serves whoever comes, for ever.
    pub fn accept(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let ours = socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid());
            if !ours || self.open.load(Ordering::SeqCst) >= CONNECTIONS {
                continue;
            }
            self.open.fetch_add(1, Ordering::SeqCst);
            let desk = Arc::clone(&self);
            let served = thread::Builder::new().spawn(move || {
                let attached = desk.serve(stream);
                desk.open.fetch_sub(1, Ordering::SeqCst);
                if attached {
                    desk.leave();
                }
            });
            if served.is_err() {
                self.open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// The job, once it runs; `None` if it never will.
    fn job(&self) -> Result<Arc<Job>, String> {
        let stage = lock(&self.stage);
        let starting = |stage: &mut Stage| matches!(stage, Stage::Starting);
        let stage = self.changed.wait_while(stage, starting);
        match &*stage.unwrap_or_else(PoisonError::into_inner) {
            Stage::Running(job, _) => Ok(Arc::clone(job)),
            Stage::Failed(why) => Err(why.clone()),
            Stage::Starting => Err("the job was not started".into()),
        }
    }

    /// Serves one connection to its end. Tells whether somebody was at the terminal.
    fn serve(&self, mut stream: UnixStream) -> bool {
        let mut attached = false;
        // It can't fail with a time above zero.
        let _ = stream.set_write_timeout(Some(WRITE));
        while let Ok(Some(frame)) = frame::read(&mut stream) {
            let job = self.job();
            match frame.kind {
                Kind::In if attached => {
                    let terminal = job.ok().and_then(|job| job.terminal());
                    if let Some(mut terminal) = terminal {
                        let _ = terminal.write_all(&frame.payload);
                    }
                }
                Kind::Message => match frame.parse::<Ask>() {
                    Ok(Ask::Watch) => {
                        let tell = job.err().map_or(Tell::Started, Tell::Failed);
                        let sent = frame::write(&mut stream, &Frame::message(&tell));
                        *lock(&self.told) |= sent.is_ok();
                        self.heard.notify_all();
                    }
                    Ok(Ask::Terminate) => {
                        self.signal(Signal::TERM);
                        // One that is stopped would not hear it.
                        self.signal(Signal::CONT);
                    }
                    Ok(Ask::Kill) => {
                        self.signal(Signal::KILL);
                    }
                    Ok(Ask::Attach) if !attached && job.is_ok() => {
                        attached = true;
                        let mut terminal = lock(&self.terminal);
                        terminal.present += 1;
                        terminal.visits += 1;
                    }
                    Ok(Ask::Up(up)) if attached => job.into_iter().for_each(|job| job.up(up)),
                    Ok(_) => {}
                    Err(_) => break,
                },
                _ => break,
            }
        }
        attached
    }

    /// Somebody left the terminal.
    fn leave(&self) {
        let visits = {
            let mut terminal = lock(&self.terminal);
            terminal.present -= 1;
            terminal.visits
        };
        let Ok(job) = self.job() else { return };
        if !job.has_terminal() {
            return;
        }
        thread::sleep(HANG_UP);
        let terminal = lock(&self.terminal);
        if terminal.present == 0 && terminal.visits == visits {
            super::signal_group(job.pid, Signal::HUP);
            self.signal(Signal::HUP);
        }
    }
}
