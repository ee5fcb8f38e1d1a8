//! The `cleave` command.

mod boards;
mod check;
mod error;
mod json;
mod screen;
mod simulate;
mod table;

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
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cleave", &mut out);
            screen::print(&String::from_utf8_lossy(&out)).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| error::report(&error))
}
