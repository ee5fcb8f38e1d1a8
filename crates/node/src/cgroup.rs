//! Control groups (version 2) where this agent may make them: memory limits, CPU weights, and a
//! sure end for all processes of an attempt.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where the agent moves itself, since a group that hands out controllers may hold no process.
const OWN: &str = "cleave-agent";
const JOBS: &str = "cleave-jobs";

/// The groups of an agent's attempts.
#[derive(Clone, Debug)]
pub struct Cgroups {
    parent: PathBuf,
    /// Tells agents in one group apart.
    prefix: u64,
}

impl Cgroups {
    /// Sets up the parent of all groups. Also tells what will not work, and the way out.
    pub fn set_up(dir: &Path) -> (Option<Self>, Vec<String>) {
        match Self::make(dir) {
            Ok((groups, missing)) if missing.is_empty() => (Some(groups), Vec::new()),
            Ok((groups, missing)) => {
                let missing = missing.join(" and ");
                let note = format!(
                    "host {missing} of jobs are not limited: controllers are not delegated; run \
                     the agent as a systemd service with Delegate=yes"
                );
                (Some(groups), vec![note])
            }
            Err(why) => {
                let note = format!(
                    "jobs have no control groups, so host memory and CPU are not limited ({why}); \
                     run the agent as a systemd service with Delegate=yes on a cgroup v2 system"
                );
                (None, vec![note])
            }
        }
    }

    fn make(dir: &Path) -> Result<(Self, Vec<&'static str>), String> {
        let mount = mount().ok_or("no cgroup v2 is mounted")?;
        let own = own().ok_or("the agent is in no cgroup v2 group")?;
        let own = mount.join(own.trim_start_matches('/'));
        let base = match own.file_name() {
            Some(name) if name == OWN => own.parent().unwrap_or(&own).to_path_buf(),
            _ => own,
        };
        let parent = base.join(JOBS);
        make_dir(&parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        // It may be there and be somebody else's.
        let trial = parent.join(format!("trial-{}", std::process::id()));
        make_dir(&trial).map_err(|e| format!("{}: {e}", parent.display()))?;
        remove(&trial);
        let prefix = fs::metadata(dir).map_err(|e| e.to_string())?.ino();
        let mut missing = Vec::new();
        for (controller, what) in [("memory", "memory"), ("cpu", "CPU")] {
            let enabled = enable(&base, controller).or_else(|e| {
                if e.kind() == io::ErrorKind::Unsupported {
                    return Err(e);
                }
                // Refused as long as the group has processes of its own.
                make_dir(&base.join(OWN))?;
                fs::write(base.join(OWN).join("cgroup.procs"), "0")?;
                enable(&base, controller)
            });
            if enabled.and_then(|()| enable(&parent, controller)).is_err() {
                missing.push(what);
            }
        }
        Ok((Self { parent, prefix }, missing))
    }

    /// The group of an attempt.
    pub fn of(&self, serial: u64) -> PathBuf {
        self.parent.join(format!("{:x}-{serial}", self.prefix))
    }

    /// Makes the group of an attempt. Memory is a limit: what is above it would be another's. CPU
    /// is a weight: a cap would leave cores idle that nobody else wants, and under contention the
    /// weight gives each attempt what it asked for. Milli-cores, bytes; 0 is unlimited.
    pub fn create(&self, serial: u64, cpu_milli: u64, memory_bytes: u64) -> io::Result<PathBuf> {
        let path = self.of(serial);
        make_dir(&path)?;
        // Absent where the controller is: that was noted when the agent started.
        if memory_bytes > 0 {
            let _ = fs::write(path.join("memory.max"), memory_bytes.to_string());
        }
        if cpu_milli > 0 {
            // 100 is everybody's default; one core weighs as much.
            let weight = (cpu_milli / 10).clamp(1, 10_000);
            let _ = fs::write(path.join("cpu.weight"), weight.to_string());
        }
        Ok(path)
    }
}

impl Cgroups {
    /// Removes the groups of attempts that are over, as one whose shim died leaves.
    pub fn sweep(&self, live: &BTreeSet<u64>) {
        let prefix = format!("{:x}-", self.prefix);
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let serial = name
                .to_str()
                .and_then(|name| name.strip_prefix(&prefix)?.parse().ok());
            if serial.is_some_and(|serial| !live.contains(&serial)) {
                remove(&entry.path());
            }
        }
    }
}

/// Removes an empty group, if it is there.
pub fn remove(path: &Path) {
    let _ = fs::remove_dir(path);
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn enable(group: &Path, controller: &str) -> io::Result<()> {
    fs::write(
        group.join("cgroup.subtree_control"),
        format!("+{controller}"),
    )
}

/// Where version 2 is mounted (`/proc/self/mountinfo`, proc(5)).
fn mount() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let of_line = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split_whitespace().nth(4)?;
        kind.starts_with("cgroup2 ").then(|| PathBuf::from(point))
    };
    text.lines().find_map(of_line)
}

/// The agent's own group.
fn own() -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix("0::"));
    found.map(String::from)
}
