//! `cleave up`: a server and the agents of its nodes, on this machine.

mod agents;
mod pool;
mod rules;

use crate::{jobs::text::count, places, screen, table::grouped};
use agents::{Agents, Launch};
use anyhow::Context;
use cleave_node::home::{self, Home};
use cleave_server::{Config, Ready};
use pool::Pool;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The file that remembers which GPUs a directory's server pretends to have.
const SIM: &str = "sim";
/// The server's journal.
const JOURNAL: &str = "journal.sqlite";

#[derive(clap::Args)]
pub struct Args {
    /// Pretend to have these GPUs, such as `4xA100-80GB`, or `2x(4xH100-80GB-SXM)` on two nodes;
    /// jobs are real processes
    #[arg(long, value_name = "GPUS", conflicts_with = "agent")]
    sim: Option<String>,
    /// How much faster than real GPUs the pretended ones are cut; 0: at once
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 20.0,
        conflicts_with = "agent"
    )]
    sim_speed: f64,
    /// Where the journal and the output of jobs are kept [default: /var/lib/cleave for root, else
    /// ~/.local/state/cleave]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where people's commands reach it [default: $CLEAVE_SOCKET, /run/cleave/cleave.sock for
    /// root, else your own; `cleave.sock` in --dir if that is given]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// A file with the policy and the queues, as scenarios have them
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let root and system users have jobs too; always so with --sim
    #[arg(long, conflicts_with = "agent")]
    allow_root_jobs: bool,
    /// An agent that is started by somebody else; may be given again for each node
    #[arg(long, value_name = "SOCKET")]
    agent: Vec<PathBuf>,
    /// Forget the journal, the jobs and the GPUs that the directory knows, and begin anew
    #[arg(long)]
    forget: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let person = places::Person::here();
    let directory = match &args.dir {
        Some(directory) => std::path::absolute(directory)?,
        None => person.directory()?,
    };
    let set = std::env::var_os(places::SOCKET).filter(|path| !path.is_empty());
    let socket = match (&args.socket, set, &args.dir) {
        (Some(socket), ..) => std::path::absolute(socket)?,
        (None, Some(socket), _) => std::path::absolute(PathBuf::from(socket))?,
        (None, None, Some(_)) => directory.join("cleave.sock"),
        (None, None, None) => person.socket()?,
    };
    places::check_socket(&socket)?;
    let rules = rules::read(args.config.as_deref())?;
    let given = args.sim.as_deref().map(Pool::read).transpose()?;
    // What is wrong with the command line is said before anything is made.
    if given.is_none() && args.agent.is_empty() && !directory.join(SIM).exists() {
        anyhow::bail!(NO_GPUS);
    }
    private(&directory)?;
    // Before anything is written where somebody else might have put a link.
    cleave_server::keep_private(&directory)?;
    let _lock = lock(&directory)?;
    if args.forget {
        forget(&directory)?;
    }
    let pool = match args.agent.is_empty() {
        true => Some(remembered(&directory, given)?),
        false => None,
    };
    let launch = Launch {
        program: agents::program,
        directory: directory.clone(),
        speed: args.sim_speed,
        root_jobs: args.allow_root_jobs,
    };
    let (mut agents, sockets) = match &pool {
        Some(pool) => Agents::new(&launch, pool)?,
        None => (Agents::default(), args.agent.clone()),
    };
    let config = Config {
        directory: directory.clone(),
        socket: socket.clone(),
        agents: sockets,
        policy: rules.policy,
        queues: rules.queues,
    };
    let ran = cleave_server::run(config, |ready| {
        // Not before: from now on a signal ends them too.
        agents.start();
        let found = places::find_socket(None) == socket;
        let text = greeting(
            ready,
            pool.as_ref(),
            &args.agent,
            &directory,
            &socket,
            found,
        );
        // Without anybody to read it, it is still a server.
        let _ = screen::print(&text);
    });
    drop(agents);
    let summary = ran?;
    screen::print(&farewell(summary.running))?;
    Ok(ExitCode::SUCCESS)
}

const NO_GPUS: &str = "this release finds no GPUs of the machine yet: pretend to have some with \
    --sim, as in\n  cleave up --sim 4xA100-80GB\njobs are real processes then, their GPUs are \
    not; `cleave boards` lists the names";

/// What is said once it answers.
fn greeting(
    ready: &Ready,
    pool: Option<&Pool>,
    agents: &[PathBuf],
    directory: &Path,
    socket: &Path,
    found: bool,
) -> String {
    let mut out = String::new();
    match pool {
        Some(pool) => {
            let label = screen::tint("SIMULATED", 35);
            out += &format!("{label} GPUs: {pool}\n");
        }
        None => {
            for agent in agents {
                out += &format!("agent    {}\n", agent.display());
            }
        }
    }
    let journal = directory.display();
    out += &match ready.restored {
        None => format!("journal  {journal} (new)\n"),
        Some(records) => format!(
            "journal  {journal} (restored, record {}; {} not over)\n",
            grouped(records),
            count(ready.unfinished, "job")
        ),
    };
    out += &format!(
        "socket   {}\n\nnext, in another terminal:\n",
        socket.display()
    );
    if !found {
        out += &format!("  export {}={}\n", places::SOCKET, socket.display());
    }
    let gpu = match pool.is_some_and(Pool::is_cut) {
        true => "10GiB",
        false => "1",
    };
    out + &format!("  cleave submit --gpu {gpu} -- sleep 60\n  cleave ps\n  cleave gpus\n")
}

fn farewell(running: u64) -> String {
    match running {
        0 => "stopped; nothing runs\n".into(),
        jobs => format!(
            "stopped; {} on running\n`cleave up` finds them again, `cleave cancel --all` before \
             it stops ends them\n",
            match jobs {
                1 => "1 job goes".into(),
                many => format!("{} go", count(many, "job")),
            }
        ),
    }
}

/// A directory that nobody else looks into.
fn private(path: &Path) -> anyhow::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .with_context(|| format!("{}: not made", path.display()))
}

/// One `cleave up` for each directory; held until it is dropped.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("up.lock");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options
        .open(&path)
        .with_context(|| format!("{}", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => anyhow::bail!(
            "another `cleave up` runs in {}: end it first, or give another --dir",
            directory.display()
        ),
        Err(why) => Err(why).with_context(|| format!("{}", path.display())),
    }
}

/// The GPUs that this directory's server has: those it had before, or those given for the first
/// time.
fn remembered(directory: &Path, given: Option<Pool>) -> anyhow::Result<Pool> {
    let path = directory.join(SIM);
    let before = match fs::read_to_string(&path) {
        Ok(text) => Some(Pool::read(text.trim()).with_context(|| format!("{}", path.display()))?),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => return Err(why).with_context(|| format!("{}", path.display())),
    };
    // Where no server ever ran there is nothing to lose.
    let before = before.filter(|_| directory.join(JOURNAL).exists());
    match (before, given) {
        (None, None) => anyhow::bail!(NO_GPUS),
        (Some(before), None) => Ok(before),
        (Some(before), Some(given)) if before == given => Ok(before),
        (Some(before), Some(given)) => anyhow::bail!(
            "{} knows {before}, not {given}: leave --sim out to go on, give another --dir, or \
             begin anew with\n  cleave up --sim '{}' --forget",
            directory.display(),
            given.text()
        ),
        (None, Some(given)) => {
            fs::write(&path, format!("{}\n", given.text()))
                .with_context(|| format!("{}: not written", path.display()))?;
            Ok(given)
        }
    }
}

/// Removes what a server and its agents keep in a directory, if no job runs there.
fn forget(directory: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    let homes: Vec<PathBuf> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(|path| pool::is_node(path))
        .collect();
    let lives = |attempt: &fs::DirEntry| Home::at(attempt.path()).is_alive();
    for home in &homes {
        let attempts = fs::read_dir(home::all(home))
            .into_iter()
            .flatten()
            .flatten();
        let alive = attempts.filter(lives).count() as u64;
        anyhow::ensure!(
            alive == 0,
            "{} in {}: go on without --forget, end {} with `cleave cancel --all`, then forget",
            match alive {
                1 => "1 process of a job runs".into(),
                many => format!("{many} processes of jobs run"),
            },
            home.display(),
            if alive == 1 { "it" } else { "them" },
        );
        agents::end(home)?;
    }
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let removed = if homes.contains(&path) {
            fs::remove_dir_all(&path)
        } else if name == SIM || name.starts_with(JOURNAL) {
            fs::remove_file(&path)
        } else {
            Ok(())
        };
        removed.with_context(|| format!("{}: not removed", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_there_is_and_what_goes_on() {
        let pool = Pool::read("2x(4xA100-80GB)").unwrap();
        let ready = Ready {
            restored: Some(1234),
            unfinished: 3,
        };
        let paths = (Path::new("/s/cleave"), Path::new("/s/cleave/cleave.sock"));
        let text = greeting(&ready, Some(&pool), &[], paths.0, paths.1, false);
        insta::assert_snapshot!(text);
        assert_eq!(farewell(0), "stopped; nothing runs\n");
        assert!(farewell(1).starts_with("stopped; 1 job goes on running\n"));
        assert!(farewell(3).starts_with("stopped; 3 jobs go on running\n"));
    }
}
