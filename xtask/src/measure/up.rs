//! `cleave up` with many jobs: how long people wait for a list and for decisions, and whether
//! memory stays where it is.

use super::row::{Row, Taker};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const QUEUED: usize = 10_000;
const RUNNING: usize = 2_000;
/// Short jobs in one round of churn.
const ROUND: usize = 200;
/// What is waited for at most.
const STUCK: Duration = Duration::from_secs(600);

/// Lists, decisions and memory with 10,000 jobs queued, 2,000 running, and short ones coming and
/// going for so many minutes (1 unless said otherwise).
pub fn many_jobs(_: &Path, words: &[&str], note: &mut dyn FnMut(Row)) -> Result<()> {
    let minutes: u64 = match words {
        [] => 1,
        [minutes] => minutes.parse().context("minutes are a number")?,
        _ => bail!("`up` takes one number: minutes"),
    };
    let pool = Pool::start()?;
    let began = Instant::now();
    pool.submit("{name: all, gpu: 4, command: sleep 36000}")?;
    pool.submit(&format!(
        "{{name: 'wait[1-{QUEUED}]', gpu: 1, command: 'true'}}"
    ))?;
    pool.submit(&format!(
        "{{name: 'run[1-{RUNNING}]', cpu: 0.05, command: [sleep, '36000']}}"
    ))?;
    pool.until("all run", |counts| counts("running") == RUNNING as u64 + 1)?;
    let filled = began.elapsed();
    let input = json!({"queued": QUEUED, "running": RUNNING + 1, "gpus": 4});

    let mut list = Taker::new();
    for _ in 0..20 {
        list.time(|| pool.get("/v1/jobs")).context("a list")?;
    }
    let outcome = json!({"filled_s": filled.as_secs_f64()});
    note(list.row("up list of all jobs", input.clone(), outcome));
    let mut screen = Taker::new();
    for _ in 0..20 {
        screen.time(|| pool.cleave(&["ps"])).context("ps")?;
    }
    note(screen.row("up cleave ps", input.clone(), json!({})));

    let mut rounds = Taker::new();
    let (first, mut most) = (pool.memory()?, pool.memory()?);
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let mut jobs = 0;
    while Instant::now() < until {
        let round = jobs / ROUND;
        let file = format!("{{name: 'short{round}-[1-{ROUND}]', cpu: 0.05, command: ['true']}}");
        rounds.time(|| -> Result<()> {
            pool.submit(&file)?;
            pool.until("a round ends", |counts| {
                counts("running") == RUNNING as u64 + 1
                    && counts("starting") == 0
                    && counts("waiting") == QUEUED as u64
                    && counts("ending") == 0
            })
        })?;
        jobs += ROUND;
        most = most.max(pool.memory()?);
    }
    let status = pool.get("/v1/status")?;
    let last = pool.memory()?;
    let outcome = json!({
        "jobs": jobs,
        "minutes": minutes,
        "decisions": status["decisions"]["count"],
        "decision_p50_ms": status["decisions"]["p50_us"].as_f64().unwrap_or(0.0) / 1e3,
        "decision_p99_ms": status["decisions"]["p99_us"].as_f64().unwrap_or(0.0) / 1e3,
        "decision_max_ms": status["decisions"]["max_us"].as_f64().unwrap_or(0.0) / 1e3,
        "server_mib_before": first.0, "server_mib_after": last.0, "server_mib_most": most.0,
        "agent_mib_before": first.1, "agent_mib_after": last.1, "agent_mib_most": most.1,
    });
    note(rounds.row("up churn", input, outcome));
    Ok(())
}

/// A server in a directory of its own.
struct Pool {
    home: PathBuf,
    program: PathBuf,
    server: Child,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.cleave(&["cancel", "--all"]);
        let _ = self.until("all over", |counts| {
            ["running", "starting", "ending", "waiting"]
                .iter()
                .all(|phase| counts(phase) == 0)
        });
        let pid = self.server.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

impl Pool {
    fn start() -> Result<Self> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--release", "--package", "cleave"])
            .status()?;
        ensure!(built.success(), "cleave does not build");
        let own = env::current_exe()?;
        let program = own.with_file_name("cleave");
        let home = PathBuf::from(format!("/tmp/cleave-measure-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        let server = Command::new(&program)
            .args([
                "up",
                "--sim",
                "4xA100-80GB",
                "--sim-speed",
                "0",
                "--dir",
                "up",
            ])
            .args(["--socket", "s", "--allow-root-jobs"])
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(home.join("log"))?)
            .spawn()?;
        let pool = Self {
            home,
            program,
            server,
        };
        pool.until("it answers", |_| true)?;
        Ok(pool)
    }

    fn cleave(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(&self.home)
            .env("CLEAVE_SOCKET", self.home.join("s"))
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cleave {arguments:?}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn submit(&self, workload: &str) -> Result<()> {
        let file = format!("cleave: 1\nworkloads:\n  - {workload}\n");
        fs::write(self.home.join("jobs.yaml"), file)?;
        self.cleave(&["submit", "jobs.yaml"]).map(drop)
    }

    fn get(&self, path: &str) -> Result<Value> {
        let mut stream = UnixStream::connect(self.home.join("s"))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: up\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = body.context("an answer without a body")? + 4;
        Ok(serde_json::from_slice(&answer[body..])?)
    }

    /// Waits until the jobs in each phase are so many.
    fn until(&self, what: &str, is: impl Fn(&dyn Fn(&str) -> u64) -> bool) -> Result<()> {
        let since = Instant::now();
        loop {
            if let Ok(jobs) = self.get("/v1/jobs?limit=0") {
                let count = |phase: &str| jobs["counts"][phase].as_u64().unwrap_or(0);
                if is(&count) {
                    return Ok(());
                }
            }
            ensure!(since.elapsed() < STUCK, "never: {what}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Resident memory of server and agent, MiB.
    fn memory(&self) -> Result<(u64, u64)> {
        let agent = fs::read_to_string(self.home.join("up/n0/lock"))?;
        Ok((
            resident(&self.server.id().to_string())?,
            resident(agent.trim())?,
        ))
    }
}

fn resident(pid: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no resident size")? / 1024)
}
