//! The agent's arguments.

use cleave_model::Name;
use std::{ffi::OsString, path::PathBuf};

/// How it is used.
pub const USAGE: &str = "\
cleave-node: the agent of one node; it cuts GPUs and runs work as processes

Usage: cleave-node --name NAME --dir DIR --socket PATH [--sim COUNTxBOARD] [options]

  --name NAME          the node's name
  --dir DIR            where it keeps what it must know after a crash, and output
  --socket PATH        where the control plane finds it
  --sim COUNTxBOARD    simulated GPUs, as in 4xA100-80GB; several with commas
  --sim-speed FACTOR   how much faster than real GPUs the simulated ones are cut; 0: at once
  --allow-root-jobs    run jobs of root, system users and unknown users too (--sim implies it)
  --control-uid UID    a further user who may speak to the agent
  --version, --help
";

/// What an agent was started with.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The node's name.
    pub name: Name,
    /// Its directory.
    pub dir: PathBuf,
    /// Its socket.
    pub socket: PathBuf,
    /// Its simulated GPUs.
    pub sim: Option<String>,
    /// By how much they are faster than real ones; 0: at once.
    pub speed: f64,
    /// Whether root, system users and unknown users may have jobs.
    pub root_jobs: bool,
    /// A further user who may speak to it.
    pub control_uid: Option<u32>,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// An agent.
    Agent(Arguments),
    /// This text.
    Text(String),
}

/// Reads the arguments.
///
/// # Errors
/// They make no sense; why.
pub fn parse(arguments: Vec<OsString>) -> Result<Wanted, String> {
    let (mut name, mut dir, mut socket, mut sim) = (None, None, None, None);
    let (mut speed, mut root_jobs, mut control_uid) = (1.0, false, None);
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let flag = argument.to_string_lossy().into_owned();
        let value = |rest: &mut std::vec::IntoIter<OsString>| {
            rest.next().ok_or(format!("{flag} needs a value"))
        };
        let text = |rest: &mut std::vec::IntoIter<OsString>| {
            let value = value(rest)?.into_string();
            value.map_err(|_| format!("the value of {flag} is not UTF-8"))
        };
        match flag.as_str() {
            "--name" => name = Some(Name::new(text(&mut rest)?).map_err(|e| e.to_string())?),
            "--dir" => dir = Some(PathBuf::from(value(&mut rest)?)),
            "--socket" => socket = Some(PathBuf::from(value(&mut rest)?)),
            "--sim" => sim = Some(text(&mut rest)?),
            "--sim-speed" => {
                let text = text(&mut rest)?;
                let number = text
                    .parse()
                    .ok()
                    .filter(|f: &f64| f.is_finite() && *f >= 0.0);
                speed = number.ok_or(format!("--sim-speed {text}: give a number from 0 up"))?;
            }
            "--allow-root-jobs" => root_jobs = true,
            "--control-uid" => {
                let text = text(&mut rest)?;
                let uid = text.parse();
                control_uid = Some(uid.map_err(|_| format!("--control-uid {text}: no user id"))?);
            }
            "--help" | "-h" => return Ok(Wanted::Text(USAGE.into())),
            "--version" | "-V" => {
                return Ok(Wanted::Text(format!(
                    "cleave-node {}\n",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            _ => return Err(format!("{flag} is not known; see --help")),
        }
    }
    let missing = |flag: &str| format!("{flag} is missing; see --help");
    Ok(Wanted::Agent(Arguments {
        name: name.ok_or_else(|| missing("--name"))?,
        dir: dir.ok_or_else(|| missing("--dir"))?,
        socket: socket.ok_or_else(|| missing("--socket"))?,
        root_jobs: root_jobs || sim.is_some(),
        sim,
        speed,
        control_uid,
    }))
}
