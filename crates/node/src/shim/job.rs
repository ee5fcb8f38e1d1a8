//! The job's process as its shim holds it, its output, and its terminal if it has one.

use crate::{
    log::{self, Stream},
    task::Task,
};
use cleave_wire::{job::Size, stream::Up};
use rustix::{
    fs::{Gid, Uid, fchown},
    process::{Pid, Signal, getpid},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcgetpgrp, tcsetwinsize},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    thread,
};

/// Ends a line of input, and with nothing before it the input (`VEOF`, termios(3)).
const END_OF_INPUT: u8 = 4;
/// Ignored unless it is one of these.
const SIGNALS: [i32; 4] = [1, 2, 3, 15];

/// A running job.
#[derive(Debug)]
pub struct Job {
    /// Its main process, which leads its session and its process group.
    pub pid: Pid,
    terminal: Option<File>,
}

impl Job {
    /// Starts it. Must be called by a thread that lives as long as the shim: the job is ended when
    /// that thread is.
    pub fn start(
        mut task: Task,
        log: &Arc<Mutex<log::Writer>>,
        done: Sender<()>,
    ) -> io::Result<Self> {
        task.parent = getpid().as_raw_nonzero().get();
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("cleave-node")
            .arg("exec")
            .stdin(Stdio::piped());
        let terminal = match task.run.terminal {
            Some(size) => {
                let (ours, its) = open_terminal(size, task.identity.uid)?;
                command.stdout(its.try_clone()?).stderr(its);
                Some(ours)
            }
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                None
            }
        };
        let mut child = command.spawn()?;
        // Its ends of the terminal are the job's alone from here on.
        drop(command);
        let pid = Pid::from_raw(child.id() as i32).expect("a child has a number");
        if let Some(terminal) = &terminal {
            copy(terminal.try_clone()?, Stream::Out, log, done.clone())?;
        }
        if let Some(out) = child.stdout.take() {
            copy(out, Stream::Out, log, done.clone())?;
        }
        if let Some(err) = child.stderr.take() {
            copy(err, Stream::Err, log, done)?;
        }
        let text = serde_json::to_vec(&task).map_err(io::Error::other)?;
        if let Some(mut input) = child.stdin.take() {
            // If it is gone, its exit says more.
            let _ = input.write_all(&text);
        }
        Ok(Self { pid, terminal })
    }

    /// Whether it has a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Another handle on its terminal.
    pub fn terminal(&self) -> Option<File> {
        self.terminal.as_ref()?.try_clone().ok()
    }

    /// Does what whoever is at the terminal says.
    pub fn up(&self, up: Up) {
        match (up, &self.terminal) {
            (Up::Resize(size), Some(terminal)) => {
                let _ = tcsetwinsize(terminal, winsize(size));
            }
            (Up::EndOfInput, Some(terminal)) => {
                let _ = (&*terminal).write_all(&[END_OF_INPUT]);
            }
            (Up::Signal(number), terminal) if SIGNALS.contains(&number) => {
                let group = terminal.as_ref().and_then(|of| tcgetpgrp(of).ok());
                let signal = Signal::from_named_raw(number);
                if let Some(signal) = signal {
                    super::signal_group(group.unwrap_or(self.pid), signal);
                }
            }
            _ => {}
        }
    }
}

/// A terminal: our end and the job's.
fn open_terminal(size: Size, uid: u32) -> io::Result<(File, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let its = ioctl_tiocgptpeer(&ours, flags)?;
    tcsetwinsize(&its, winsize(size))?;
    if rustix::process::geteuid().is_root() {
        fchown(&its, Some(Uid::from_raw(uid)), None::<Gid>)?;
    }
    Ok((ours.into(), its))
}

fn winsize(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Copies one stream of the job's into its log, on a thread of its own.
fn copy(
    mut from: impl Read + Send + 'static,
    stream: Stream,
    log: &Arc<Mutex<log::Writer>>,
    done: Sender<()>,
) -> io::Result<()> {
    let log = Arc::clone(log);
    let body = move || {
        let mut bytes = vec![0; log::RECORD];
        loop {
            match from.read(&mut bytes) {
                // A terminal ends by an error.
                Ok(0) => break,
                Ok(count) => {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.append(stream, &bytes[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(done);
    };
    thread::Builder::new().spawn(body).map(drop)
}
