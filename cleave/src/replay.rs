//! `cleave replay`: a journal read back.

use crate::{error, screen};
use anyhow::Context;
use cleave_server::replay;
use sha2::{Digest, Sha256};
use std::{path::PathBuf, process::ExitCode};

#[derive(clap::Args)]
pub struct Args {
    /// The journal: `journal.sqlite` in the directory of `cleave up`, or a copy of it
    journal: PathBuf,
    /// Fail unless the state that it comes to has this digest
    #[arg(long, value_name = "SHA256")]
    expect: Option<String>,
    /// Print the state itself, one fact a line
    #[arg(long)]
    canonical: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let there = args.journal.metadata();
    there.with_context(|| args.journal.display().to_string())?;
    let replayed = replay(&args.journal)?;
    if args.canonical {
        screen::print(&replayed.canonical)?;
        return Ok(ExitCode::SUCCESS);
    }
    let digest: String = Sha256::digest(&replayed.canonical)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    screen::print(&format!(
        "{} records up to {}, {} jobs not over; every rule holds\nstate v{} sha256 {digest}\n",
        replayed.records, replayed.last, replayed.unfinished, replayed.version
    ))?;
    match &args.expect {
        Some(expected) if *expected != digest => {
            screen::complain(&format!("cleave: another state than {expected}"));
            Ok(ExitCode::from(error::DIFFERENT))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
