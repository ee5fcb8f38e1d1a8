//! `cleave-node shim`: the parent of one attempt's process. It outlives the agent.
//!
//! It is started with the attempt's lock, held, as standard input and with the attempt's socket,
//! listening, as standard output: so whoever looks finds it alive and can speak to it from before
//! its first instruction to its last. It holds the lock until it dies.

pub mod ask;
mod job;
mod serve;

use crate::{cgroup, home::Home, log, processes, task::Task};
use cleave_wire::fault;
use job::Job;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, setsid, wait},
    stdio::stdout,
};
use serve::Desk;
use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    os::{fd::AsFd, unix::net::UnixListener},
    process::ExitCode,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

/// How long the last output is waited for once all processes are gone: somebody else may have been
/// given the other end.
const DRAIN: Duration = Duration::from_secs(2);
/// How long a shim without a job waits for somebody to tell.
const TELL: Duration = Duration::from_secs(10);

/// Runs the attempt whose home is named.
pub fn main(home: Option<OsString>) -> ExitCode {
    let Some(home) = home else {
        let _ = writeln!(io::stderr(), "cleave-node shim: it is started by an agent");
        return ExitCode::from(2);
    };
    match run(&Home::at(home.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "cleave-node shim: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(home: &Home) -> io::Result<()> {
    let listener = UnixListener::from(stdout().as_fd().try_clone_to_owned()?);
    // What happens to the agent's session is no concern of it. Signals that stop an agent are
    // blocked here as they are there.
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    let desk = Arc::new(Desk::default());
    let served = Arc::clone(&desk);
    thread::Builder::new().spawn(move || served.accept(&listener))?;
    let log = Arc::new(Mutex::new(log::Writer::new(
        home.path(),
        log::Keep::default(),
    )));
    let (done, outputs) = mpsc::channel();
    let started = load(home).and_then(|task| {
        fault::point("shim-start-before");
        let cgroup = task.cgroup.clone();
        Job::start(task, &log, done).map(|job| (job, cgroup))
    });
    let (job, cgroup) = match started {
        Ok(started) => started,
        Err(e) => {
            desk.failed(e.to_string(), TELL);
            return Ok(());
        }
    };
    // Only a help to whoever cleans up after a shim that was killed.
    let _ = home.write_session(job.pid.as_raw_nonzero().get());
    let main = job.pid;
    desk.started(job, cgroup.clone());
    fault::point("shim-start-after");

    let code = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => break code(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    end_descendants(&desk);
    // Each output lets go of its end when it is through.
    let _ = outputs.recv_timeout(DRAIN);
    fault::point("shim-exit-before");
    while let Err(e) = home.write_exit(code) {
        // A full disk. As long as the code is not kept, the attempt is not over.
        let _ = writeln!(io::stderr(), "cleave-node shim: exit file: {e}");
        thread::sleep(Duration::from_secs(1));
    }
    fault::point("shim-exit-after");
    cgroup.as_deref().into_iter().for_each(cgroup::remove);
    Ok(())
}

fn load(home: &Home) -> io::Result<Task> {
    let text = fs::read(home.task())?;
    fs::remove_file(home.task())?;
    // The details would show what the task says.
    serde_json::from_slice(&text).map_err(|_| io::Error::other("the task can't be understood"))
}

/// Ends whatever the job left. Orphans come to the shim, so it has no children if and only if there
/// are no descendants.
fn end_descendants(desk: &Desk) {
    let mut pause = Duration::from_millis(1);
    let mut hopeless = 0;
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        // Processes that became another user's can't be ended without the right to.
        hopeless = if desk.signal(Signal::KILL) {
            0
        } else {
            hopeless + 1
        };
        if hopeless > 100 {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// As shells have it.
fn code(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(signal).unwrap_or(255)
}

/// Sends a signal to all descendants of this process. Tells whether there was one that could be
/// sent to, or none at all.
fn signal_all(signal: Signal) -> bool {
    let all = processes::descendants(getpid().as_raw_nonzero().get());
    let sent = all.iter().filter(|process| process.signal(signal)).count();
    sent > 0 || all.is_empty()
}

/// Sends a signal to a process group.
fn signal_group(group: Pid, signal: Signal) {
    // Gone already, as a rule.
    let _ = rustix::process::kill_process_group(group, signal);
}
