//! A node's hands: the agent that runs work as processes and cuts GPUs.
//!
//! One binary, three modes, so that whatever one of them does to itself (crash, give up
//! privileges) does not touch the others:
//!
//! * the **agent** ([`agent`]) drives [`cleave_device::hands`]: messages, timers and processes in,
//!   effects out, in one loop. What it must know after a crash is in its [`store`]. Others speak to
//!   it in its [`lobby`];
//! * a **shim** ([`shim`]) for each attempt is the parent of the job's process. It outlives the
//!   agent, keeps the output ([`log`]) and the exit code in the attempt's [`home`];
//! * **exec** ([`exec`]) becomes the job.
//!
//! It must not know who decides, or why.

pub mod agent;
pub mod args;
pub mod cgroup;
pub mod devices;
pub mod exec;
pub mod home;
pub mod lobby;
pub mod log;
pub mod output;
pub mod processes;
pub mod shim;
pub mod signals;
pub mod store;
pub mod task;
pub mod users;

use std::{
    io::{self, Write},
    process::ExitCode,
};

/// The binary: arguments from its command line.
pub fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("shim") => return shim::main(arguments.drain(..).nth(1)),
        Some("exec") => return exec::main(),
        _ => {}
    }
    let outcome = match args::parse(arguments) {
        Ok(args::Wanted::Text(text)) => io::stdout()
            .write_all(text.as_bytes())
            .map_err(|e| e.to_string()),
        Ok(args::Wanted::Agent(arguments)) => agent::run(arguments),
        Err(why) => {
            let _ = writeln!(io::stderr(), "cleave-node: {why}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "cleave-node: {why}");
            ExitCode::FAILURE
        }
    }
}
