//! `cleave-node exec`: the process that becomes the job.
//!
//! It is told its task on standard input, gives up everything that the job must not have, and
//! executes the command. Standard output and error are the job's already.

use crate::{signals, task::Task, users::Identity};
use cleave_wire::job::{Bounds, Limit};
use nix::unistd::{
    Gid, Uid, close, getgroups, getresgid, getresuid, setgroups, setresgid, setresuid,
};
use rustix::{
    fs::Mode,
    process::{
        Resource, Rlimit, Signal, getpid, getppid, getrlimit, ioctl_tiocsctty,
        set_parent_process_death_signal, setrlimit, setsid, umask,
    },
    stdio::{dup2_stdin, stdout},
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

/// As shells have it.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Becomes the job. Where that can't be, says so in one line where the job's errors go, as a shell
/// does.
pub fn main() -> ExitCode {
    let (code, why) = become_job();
    let _ = writeln!(io::stderr(), "cleave: {why}");
    ExitCode::from(code)
}

/// Returns only if it fails.
fn become_job() -> (u8, String) {
    let (task, mut command) = match prepare() {
        Ok(prepared) => prepared,
        Err(why) => return (NOT_EXECUTABLE, why),
    };
    let error = command.exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let name = &task.run.argv[0];
    (code, format!("cannot run `{name}`: {}", plain(&error)))
}

fn prepare() -> Result<(Task, Command), String> {
    let mut text = Vec::new();
    io::stdin()
        .read_to_end(&mut text)
        .map_err(|e| format!("cannot read the task: {e}"))?;
    // Its contents are nobody's business, so neither are the details of a bad one.
    let task: Task = serde_json::from_slice(&text).map_err(|_| "cannot understand the task")?;
    if task.run.argv.is_empty() {
        return Err("the task has no command".into());
    }
    close_others();
    setsid().map_err(|e| format!("cannot begin a session: {e}"))?;
    if task.run.terminal.is_some() {
        ioctl_tiocsctty(stdout()).map_err(|e| format!("cannot take the terminal: {e}"))?;
        dup2_stdin(stdout()).map_err(|e| format!("cannot take the terminal: {e}"))?;
    } else {
        let null = File::open("/dev/null").map_err(|e| format!("cannot open /dev/null: {e}"))?;
        dup2_stdin(null).map_err(|e| format!("cannot set standard input: {e}"))?;
    }
    if let Some(cgroup) = &task.cgroup {
        fs::write(cgroup.join("cgroup.procs"), "0")
            .map_err(|e| format!("cannot join the job's control group: {e}"))?;
    }
    step_down(&task.identity)?;
    // Changing the user clears it, so it is set here, and whoever died before is noticed below.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| format!("cannot be tied to the shim: {e}"))?;
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != task.parent) {
        return Err(format!("process {} lost its shim", getpid()));
    }
    umask(Mode::from_raw_mode(task.run.umask & 0o777));
    std::env::set_current_dir(&task.run.directory)
        .map_err(|e| format!("cannot enter `{}`: {}", task.run.directory, plain(&e)))?;
    let mut command = Command::new(&task.run.argv[0]);
    command
        .args(&task.run.argv[1..])
        .env_clear()
        .envs(&task.run.env);
    for (limit, bounds) in &task.run.limits {
        bound(*limit, *bounds).map_err(|e| format!("cannot set limit {limit:?}: {e}"))?;
    }
    signals::reset();
    Ok((task, command))
}

/// Closes whatever came along beside the three standard streams.
fn close_others() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let open: Vec<i32> = entries.filter_map(number).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The one that listed them is closed already.
        let _ = close(fd);
    }
}

/// Becomes the user for good.
fn step_down(to: &Identity) -> Result<(), String> {
    let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
    let failed = |what: &str, e: nix::Error| format!("cannot {what}: {}", e.desc());
    let groups: Vec<Gid> = to.groups.iter().copied().map(Gid::from_raw).collect();
    if nix::unistd::geteuid().is_root() {
        setgroups(&groups).map_err(|e| failed("set groups", e))?;
        setresgid(gid, gid, gid).map_err(|e| failed("set the group", e))?;
        setresuid(uid, uid, uid).map_err(|e| failed("set the user", e))?;
        let now = getgroups().map_err(|e| failed("read groups", e))?;
        if now.iter().any(|group| !groups.contains(group)) {
            return Err("groups are left that the user is not in".into());
        }
    }
    let users = getresuid().map_err(|e| failed("read the user", e))?;
    let own = getresgid().map_err(|e| failed("read the group", e))?;
    if [users.real, users.effective, users.saved] != [uid; 3]
        || [own.real, own.effective, own.saved] != [gid; 3]
    {
        return Err("the process is not wholly the user's".into());
    }
    let root = Uid::from_raw(0);
    if !uid.is_root() && setresuid(root, root, root).is_ok() {
        return Err("the process could become root again".into());
    }
    Ok(())
}

/// Bounds one resource: as claimed, never above what there is.
fn bound(limit: Limit, claimed: Bounds) -> rustix::io::Result<()> {
    let resource = match limit {
        Limit::Core => Resource::Core,
        Limit::Cpu => Resource::Cpu,
        Limit::Data => Resource::Data,
        Limit::FileSize => Resource::Fsize,
        Limit::LockedMemory => Resource::Memlock,
        Limit::OpenFiles => Resource::Nofile,
        Limit::Processes => Resource::Nproc,
        Limit::Stack => Resource::Stack,
        Limit::AddressSpace => Resource::As,
    };
    let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let maximum = least(claimed.hard, getrlimit(resource).maximum);
    let current = least(claimed.soft, maximum);
    setrlimit(resource, Rlimit { current, maximum })
}

/// An error without its number.
fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::Error::from_raw(number).desc().into(),
        None => error.to_string(),
    }
}
