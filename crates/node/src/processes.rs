//! Processes as `/proc` shows them: descendants, and what an attempt left behind.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

/// One process. The start time tells it from a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    zombie: bool,
    started: u64,
}

impl Process {
    /// Sends it a signal unless it is gone. Tells whether that was allowed.
    pub fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return false;
        };
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return true;
        };
        // What the descriptor stands for is what was seen only if it began when that did.
        let same = read(self.pid).is_some_and(|now| now.started == self.started);
        !same || pidfd_send_signal(fd, signal) != Err(rustix::io::Errno::PERM)
    }

    fn uid(&self) -> Option<u32> {
        // The owner of the directory would be root for one that can't be traced.
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn has_all(&self, variables: &[String]) -> bool {
        let text = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let entries: BTreeSet<&[u8]> = text.split(|byte| *byte == 0).collect();
        let mut wanted = variables.iter().map(String::as_bytes);
        !variables.is_empty() && wanted.all(|variable| entries.contains(variable))
    }
}

/// The descendants of a process that are not dead.
pub fn descendants(of: i32) -> Vec<Process> {
    let processes = list();
    let mut children = BTreeMap::<i32, Vec<&Process>>::new();
    for process in &processes {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut next) = (Vec::new(), vec![of]);
    while let Some(parent) = next.pop() {
        for process in children.remove(&parent).into_iter().flatten() {
            next.push(process.pid);
            found.push(*process);
        }
    }
    found.retain(|process| !process.zombie);
    found
}

/// What is known of an attempt whose shim died.
#[derive(Clone, Debug)]
pub struct Traces<'a> {
    /// The user its processes belong to.
    pub uid: u32,
    /// Variables that its processes were given, as `key=value`.
    pub variables: &'a [String],
    /// Its main process, which led a session, as the shim wrote it down.
    pub session: Option<i32>,
}

/// Ends what is left of an attempt whose shim died, until nothing is seen of it. Without a control
/// group it is recognised by its user and by its session or its environment.
pub fn end_left(traces: &Traces<'_>, cgroup: Option<&Path>) {
    let mut pause = Duration::from_millis(2);
    // What can't be ended in all that time (a minute) never will.
    for _ in 0..600 {
        if let Some(cgroup) = cgroup {
            // Absent on kernels before 5.14; the search below does it then.
            let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        }
        let is_left = |process: &&Process| {
            !process.zombie
                && process.uid() == Some(traces.uid)
                && (Some(process.session) == traces.session || process.has_all(traces.variables))
        };
        let processes = list();
        let left: Vec<&Process> = processes.iter().filter(is_left).collect();
        let crowded = cgroup.is_some_and(is_populated);
        if left.is_empty() && !crowded {
            return;
        }
        left.into_iter().for_each(|process| {
            process.signal(Signal::KILL);
        });
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

fn is_populated(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.events"))
        .is_ok_and(|text| text.lines().any(|line| line == "populated 1"))
}

fn list() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(read).collect()
}

/// Fields of `/proc/PID/stat` (proc(5)); the name, which may hold anything, ends at the last `)`.
fn read(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        pid,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}
