//! The `cleave` command.

mod boards;
mod check;
#[cfg(feature = "up")]
mod client;
mod error;
#[cfg(feature = "up")]
mod jobs;
mod json;
#[cfg(not(feature = "up"))]
mod left_out;
#[cfg(feature = "up")]
mod places;
#[cfg(feature = "up")]
mod replay;
mod screen;
mod simulate;
mod table;
#[cfg(feature = "up")]
mod up;

#[cfg(feature = "up")]
use jobs::{cancel, gpus, logs, ps, run, submit, why};
#[cfg(not(feature = "up"))]
use left_out::{cancel, gpus, logs, ps, replay, run, submit, up, why};

use clap::{CommandFactory, Parser, Subcommand};
use std::{fs::File, io::Read, path::Path, process::ExitCode};

/// Bytes of a scenario file that are read at most.
const MAX_SCENARIO: u64 = 64 << 20;

/// Cleave pools GPUs, cuts them into slices by demand and joins them again.
#[derive(Parser)]
#[command(name = "cleave", version, about, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the GPU boards that are known, or one board's profiles, starts and layouts
    Boards(boards::Args),
    /// Run scenario files against what they expect
    ///
    /// Exits with 0 if every expectation holds, 1 if one does not, 2 if a file is bad.
    Check(check::Args),
    /// Run a scenario, or a cluster trace, and show what came of it
    Simulate(Box<simulate::Args>),
    /// Share this machine's GPUs, or simulated ones: start here
    Up(Box<up::Args>),
    /// Submit a job: a command with what it needs, or a file
    Submit(Box<submit::Args>),
    /// Run a job in the foreground, with this terminal
    ///
    /// Exits with the exit code of the job.
    Run(Box<run::Args>),
    /// List jobs and how far they are
    Ps(ps::Args),
    /// Say why a job waits, or how it ended
    Why(why::Args),
    /// Show the output of a job
    Logs(logs::Args),
    /// End jobs
    Cancel(cancel::Args),
    /// Show the GPUs and who holds which part
    Gpus(gpus::Args),
    /// Read a journal back and check what it comes to
    Replay(replay::Args),
    /// Print the completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// A scenario file as text, if it is not larger than anybody writes.
fn scenario_text(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let mut limited = File::open(file)?.take(MAX_SCENARIO + 1);
    limited.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SCENARIO {
        let message = format!(
            "larger than {} MiB: write it with ranges",
            MAX_SCENARIO >> 20
        );
        return Err(std::io::Error::other(message));
    }
    Ok(text)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Boards(args) => boards::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Submit(args) => submit::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Cancel(args) => cancel::run(&args),
        Command::Gpus(args) => gpus::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cleave", &mut out);
            screen::print(&String::from_utf8_lossy(&out)).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| error::report(&error))
}
