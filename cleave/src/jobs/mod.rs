//! The commands that speak to a running `cleave up`.

pub mod cancel;
mod follow;
pub mod gpus;
pub mod logs;
mod outline;
pub mod ps;
mod request;
pub mod run;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod screens;
pub mod submit;
mod surroundings;
mod terminal;
pub mod text;
pub mod why;

use crate::{
    client::{Client, Failure},
    error, places, screen,
};
use anyhow::Context;
use cleave_model::Name;
use std::{future::Future, path::PathBuf, process::ExitCode};

/// Which server.
#[derive(clap::Args)]
pub struct Server {
    /// The server's socket [default: $CLEAVE_SOCKET, then your own `cleave up`, then the
    /// machine's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Server {
    fn client(&self) -> Client {
        Client::new(places::find_socket(self.socket.as_deref()))
    }
}

/// Runs what waits for a server, in this thread.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let result = runtime.block_on(work);
    // A thread may still wait for standard input; nobody waits for it.
    runtime.shutdown_background();
    result
}

/// A name that a job may have.
fn job_name(text: &str) -> anyhow::Result<String> {
    Ok(Name::new(text)
        .map_err(|bad| anyhow::anyhow!("{bad}"))?
        .into())
}

/// Names that may hold `*`.
fn pattern(text: &str) -> anyhow::Result<String> {
    job_name(&text.replace('*', "x"))
        .map(|_| text.to_owned())
        .with_context(|| format!("`{text}`"))
}

/// Whether `name` is the pattern with any text for each `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(first) else {
        return false;
    };
    let mut starts = (0..=name.len()).filter(|at| name.is_char_boundary(*at));
    starts.any(|at| matches(rest, &name[at..]))
}

/// Who the caller is, as the server writes it.
fn own_name() -> String {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// What went wrong, in the words of whoever typed the command.
fn told(failure: Failure) -> anyhow::Error {
    anyhow::Error::new(failure)
}

/// Says something on standard error and ends as bad input does.
fn refused(line: &str) -> ExitCode {
    screen::complain(line);
    ExitCode::from(error::BAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, yes) in [
            ("sweep-*", "sweep-12", true),
            ("sweep-*", "sweep", false),
            ("*", "anything", true),
            ("*-1*", "sweep-1", true),
            ("*-1*", "sweep-21", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("exact", "exactly", false),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
        assert!(pattern("sweep-*").is_ok());
        assert!(pattern("../x y").is_err());
    }
}
