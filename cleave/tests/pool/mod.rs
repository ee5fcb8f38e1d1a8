//! A control plane and an agent of simulated GPUs, as real processes in a directory of their own.
#![allow(dead_code, reason = "each test uses a part of it")]

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long something may take before it counts as stuck.
const STUCK: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Server,
    Agent,
}

pub struct Pool {
    pub home: PathBuf,
    pub server: Option<Child>,
    pub agent: Option<Child>,
    pub deaths: u64,
    /// Its directory is kept, for people to look at.
    pub keep: bool,
}

impl Drop for Pool {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.agent].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !thread::panicking() && !self.keep {
            let _ = fs::remove_dir_all(&self.home);
        }
    }
}

impl Pool {
    pub fn new(name: &str, jobs: &str) -> Self {
        let home = PathBuf::from(format!("/tmp/cleave-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).expect("a directory in /tmp");
        let rules = "cleave: 1\npolicy: {grace: 1s, resend-after: 1s, back-off: 100ms}\n";
        fs::write(home.join("rules.yaml"), rules).expect("written");
        fs::write(home.join("jobs.yaml"), jobs).expect("written");
        Self {
            home,
            server: None,
            agent: None,
            deaths: 0,
            keep: false,
        }
    }

    pub fn start(&mut self, who: Who, fate: Option<&str>) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.join("log"))
            .expect("a log");
        let (program, arguments) = match who {
            Who::Agent => (
                env!("CARGO_BIN_EXE_cleave-node"),
                "--name n0 --dir n0 --socket n0.sock --sim 4xA100-80GB --sim-speed 0 \
                 --allow-root-jobs",
            ),
            Who::Server => (
                env!("CARGO_BIN_EXE_cleave"),
                "up --agent n0.sock --dir up --socket up.sock --config rules.yaml",
            ),
        };
        let mut command = Command::new(program);
        command
            .args(arguments.split_whitespace())
            .current_dir(&self.home)
            .env_remove("CLEAVE_DIE_AT")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        if let Some(fate) = fate {
            command.env("CLEAVE_DIE_AT", fate);
        }
        let child = command.spawn().expect("a built program");
        match who {
            Who::Agent => self.agent = Some(child),
            Who::Server => self.server = Some(child),
        }
    }

    /// Starts again what has died; takes the other one with it if `both`.
    pub fn tend(&mut self, both: bool) {
        let dead = |child: &mut Option<Child>| {
            let status = child.as_mut()?.try_wait().expect("own child")?;
            assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
            Some(())
        };
        let (server, agent) = (dead(&mut self.server), dead(&mut self.agent));
        if server.is_none() && agent.is_none() {
            return;
        }
        self.deaths += 1;
        if both {
            for child in [&mut self.server, &mut self.agent].into_iter().flatten() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if server.is_some() || both {
            self.start(Who::Server, None);
        }
        if agent.is_some() || both {
            self.start(Who::Agent, None);
        }
    }

    /// A command, as a user if one is given.
    pub fn command(&self, arguments: &[&str], uid: Option<u32>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cleave"));
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        command
            .args(arguments)
            .current_dir(&self.home)
            .env("CLEAVE_SOCKET", self.home.join("up.sock"))
            .stdin(Stdio::null())
            .output()
            .expect("a built program")
    }

    /// Standard output of a command that succeeded.
    pub fn cleave(&self, arguments: &str) -> Option<String> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let output = self.command(&words, None);
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Phase and exit code of every job ever.
    pub fn phases(&self) -> Option<BTreeMap<String, String>> {
        let list: Value = serde_json::from_str(&self.cleave("ps -a --json -")?).ok()?;
        let jobs = list["jobs"].as_array()?.iter();
        jobs.map(|job| {
            let text = |key: &str| Some(job[key].as_str()?.to_owned());
            Some((text("name")?, text("phase")?))
        })
        .collect()
    }

    /// Waits until something is so, and keeps the pool alive meanwhile.
    pub fn until(
        &mut self,
        both: bool,
        what: &str,
        is: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let since = Instant::now();
        loop {
            self.tend(both);
            if is(self) {
                return Ok(());
            }
            if since.elapsed() > STUCK {
                return Err(format!("never: {what}: {:?}", self.phases()));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn ran(&self) -> BTreeMap<String, u64> {
        let mut ran = BTreeMap::new();
        let text = fs::read_to_string(self.home.join("ran")).unwrap_or_default();
        for line in text.lines() {
            *ran.entry(line.to_owned()).or_default() += 1;
        }
        ran
    }
}

/// Whether a phase stays for ever.
pub fn is_over(phase: &str) -> bool {
    ["done", "failed", "cancelled"].contains(&phase)
}
