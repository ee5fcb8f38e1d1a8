//! `cleave run`: a job in the foreground, as if the command were typed alone.

use super::{
    Server, block_on,
    follow::{self, End, Position, Source, patiently},
    refused,
    request::Flags,
    submit, terminal,
    text::{cut, tame},
    told,
};
use crate::{
    client::{Client, Failure, Feed, escape},
    screen,
};
use cleave_server::api::{Cancellation, Cancelled, Detail, Phase, Row, Submitted};
use cleave_wire::stream::Up;
use std::{
    collections::BTreeSet, convert::Infallible, io::Write, process::ExitCode, time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::Receiver,
    task::JoinSet,
    time::{sleep, timeout},
};

/// A job that starts within this time never shows why it waited.
const QUICK: Duration = Duration::from_millis(400);
/// The exit code of a job that was cancelled, as after Ctrl-C.
const INTERRUPTED: u8 = 130;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Give the job this terminal: auto if there is one on both sides
    #[arg(long, short, value_enum, default_value = "auto", num_args = 0..=1,
        default_missing_value = "always", value_name = "WHEN")]
    tty: When,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// If standard input and output are terminals
    Auto,
    Always,
    Never,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let tty = match args.tty {
        When::Auto => terminal::is_there(),
        When::Always => true,
        When::Never => false,
    };
    let size = cleave_wire::job::Size {
        rows: 24,
        columns: 80,
    };
    let size = tty.then(|| terminal::size().unwrap_or(size));
    let submission = args.flags.submission(None, size)?;
    let client = args.server.client();
    block_on(async {
        // From here on these end the job, not this process with the job left over.
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hang_up = signal(SignalKind::hangup())?;
        let submitted = match client.post::<Submitted>("/v1/jobs", &submission).await {
            Ok(submitted) => submitted,
            Err(Failure::Refused(_, problem)) => {
                return Ok(refused(&submit::complaint(&problem, None)));
            }
            Err(failure) => return Err(told(failure)),
        };
        let Some(name) = submitted.jobs.into_iter().next() else {
            return Ok(refused("cleave: nothing was submitted"));
        };
        let mut watch = Watch {
            client: client.clone(),
            name,
            tty,
            begun: BTreeSet::new(),
            outputs: JoinSet::new(),
            typed: None,
            status: Status::default(),
        };
        let name = watch.name.clone();
        let ended = attended(
            &client,
            &name,
            watch.see_out(),
            interrupt,
            terminate,
            hang_up,
        );
        let ended = ended.await;
        if ended.is_err() {
            // Nobody is left to see its output: it would run on unseen.
            let _ = cancel(&client, &name).await;
        }
        ended
    })
}

/// Sees a job to its end, or ends it when this process is told to end.
async fn attended(
    client: &Client,
    name: &str,
    work: impl Future<Output = anyhow::Result<u8>>,
    mut interrupt: Signal,
    mut terminate: Signal,
    mut hang_up: Signal,
) -> anyhow::Result<ExitCode> {
    tokio::pin!(work);
    let mut asked = false;
    loop {
        tokio::select! {
            code = &mut work => return Ok(ExitCode::from(code?)),
            _ = interrupt.recv() => {
                if asked {
                    screen::complain(&format!("cleave: {name} was told to end: cleave why {name}"));
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                asked = true;
                screen::complain(&format!("\ncleave: ending {name}; Ctrl-C again leaves at once"));
                let (client, name) = (client.clone(), name.to_owned());
                tokio::spawn(async move { cancel(&client, &name).await });
            }
            _ = terminate.recv() => {
                let _ = cancel(client, name).await;
                return Ok(ExitCode::from(143));
            }
            _ = hang_up.recv() => {
                let _ = cancel(client, name).await;
                return Ok(ExitCode::from(129));
            }
        }
    }
}

async fn cancel(client: &Client, name: &str) -> Result<Cancelled, Failure> {
    let cancellation = Cancellation {
        jobs: vec![name.into()],
    };
    patiently(|| client.post("/v1/cancel", &cancellation)).await
}

/// A job that is watched.
struct Watch {
    client: Client,
    name: String,
    tty: bool,
    /// Workers and attempts whose output is passed on.
    begun: BTreeSet<(u32, u32)>,
    outputs: JoinSet<anyhow::Result<End>>,
    typed: Option<Receiver<Vec<u8>>>,
    status: Status,
}

impl Watch {
    /// Passes on all output; the job's exit code.
    async fn see_out(&mut self) -> anyhow::Result<u8> {
        let (client, name) = (self.client.clone(), self.name.clone());
        let mut seen: Option<Row> = None;
        loop {
            let row = {
                let next = patiently(|| client.wait(&name, seen.as_ref()));
                tokio::pin!(next);
                match timeout(QUICK, &mut next).await {
                    Ok(row) => row,
                    Err(_) => {
                        if let Some(row) = &seen {
                            self.status.show(row);
                        }
                        self.next_or_failed_output(next).await?
                    }
                }
            };
            let row = row.map_err(told)?;
            if row.phase != Phase::Waiting || row.started.is_some() {
                self.pass_on_new(row.phase.is_over()).await?;
            }
            if row.phase.is_over() {
                self.status.clear();
                while let Some(output) = self.outputs.join_next().await {
                    output??;
                }
                return Ok(code(&row));
            }
            seen = Some(row);
        }
    }

    /// The next row, unless output can't be passed on any more.
    async fn next_or_failed_output<T>(
        &mut self,
        next: impl Future<Output = T>,
    ) -> anyhow::Result<T> {
        tokio::pin!(next);
        loop {
            tokio::select! {
                row = &mut next => return Ok(row),
                Some(output) = self.outputs.join_next() => { output??; }
            }
        }
    }

    /// Begins to pass on the output of attempts that are new.
    async fn pass_on_new(&mut self, over: bool) -> anyhow::Result<()> {
        let (client, name) = (&self.client, &self.name);
        let detail: Detail = patiently(|| client.job(name)).await.map_err(told)?;
        for attempt in detail.attempts {
            let ran = attempt.started.is_some() || attempt.exit.is_some();
            if !ran || !self.begun.insert((attempt.worker, attempt.attempt)) {
                continue;
            }
            self.status.clear();
            let source = Source {
                name: self.name.clone(),
                worker: attempt.worker,
                attempt: Some(attempt.attempt),
                tail: None,
                follow: true,
            };
            if self.tty && attempt.worker == 0 && !over {
                self.at_terminal(&source).await?;
            } else {
                let client = self.client.clone();
                self.outputs
                    .spawn(async move { follow::output(&client, &source).await });
            }
        }
        Ok(())
    }

    /// Lends this terminal to an attempt until it ends.
    async fn at_terminal(&mut self, source: &Source) -> anyhow::Result<()> {
        let path = format!(
            "/v1/jobs/{}/attach?worker={}&attempt={}",
            escape(&source.name),
            source.worker,
            source.attempt.unwrap_or_default()
        );
        let mut position = Position::default();
        let mut resized = signal(SignalKind::window_change())?;
        let typed = self.typed.get_or_insert_with(terminal::keys);
        let _raw = terminal::Raw::take();
        loop {
            let client = &self.client;
            let (mut frames, mut feed) = patiently(|| client.attach(&path)).await.map_err(told)?;
            let end = tokio::select! {
                end = position.pass_on(&mut frames) => end?,
                never = type_in(&mut feed, typed, &mut resized) => match never {},
            };
            match end {
                End::Cut => sleep(Duration::from_millis(250)).await,
                End::Over | End::Nothing(_) => return Ok(()),
            }
        }
    }
}

/// Passes on what is typed and how large the terminal is, for ever: a connection that broke is
/// seen by what comes from it.
async fn type_in(
    feed: &mut Feed,
    typed: &mut Receiver<Vec<u8>>,
    resized: &mut Signal,
) -> Infallible {
    let mut open = true;
    resize(feed).await;
    loop {
        tokio::select! {
            _ = resized.recv() => resize(feed).await,
            keys = typed.recv(), if open => {
                let _ = match keys {
                    Some(keys) => feed.bytes(keys).await,
                    None => {
                        open = false;
                        feed.message(&Up::EndOfInput).await
                    }
                };
            }
        }
    }
}

/// Tells the job how large the terminal is.
async fn resize(feed: &mut Feed) {
    if let Some(size) = terminal::size() {
        // A connection that broke is seen by what comes from it.
        let _ = feed.message(&Up::Resize(size)).await;
    }
}

/// The exit code of a job that is over.
fn code(row: &Row) -> u8 {
    match (row.phase, row.exit) {
        (Phase::Done, _) => 0,
        (Phase::Cancelled, None | Some(0)) => INTERRUPTED,
        (_, Some(code)) => code.clamp(1, 255) as u8,
        (_, None) => 1,
    }
}

/// Why a job does not run yet, on standard error: one line that changes on a terminal, a line for
/// each reason elsewhere.
#[derive(Default)]
struct Status {
    said: String,
    drawn: bool,
}

impl Status {
    fn show(&mut self, row: &Row) {
        let text = match row.phase {
            Phase::Waiting if row.reason.is_empty() => "waits".into(),
            Phase::Waiting => format!("waits: {}", tame(&row.reason)),
            Phase::Starting => format!("starts on {}", tame(&row.places.join(", "))),
            _ => return,
        };
        let line = format!("cleave: {} {text}", row.name);
        if line == self.said {
            return;
        }
        match terminal::error_width() {
            Some(width) => {
                let line = cut(&line, width - 1);
                // With standard error gone there is nobody left to tell.
                let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K{line}");
                self.drawn = true;
            }
            None if row.phase == Phase::Waiting => screen::complain(&line),
            None => {}
        }
        self.said = line;
    }

    fn clear(&mut self) {
        if self.drawn {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K");
            self.drawn = false;
        }
        self.said.clear();
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_jobs() {
        let row = |phase, exit| {
            code(&Row {
                phase,
                exit,
                ..crate::jobs::samples::row("a", Phase::Done)
            })
        };
        for (phase, exit, code) in [
            (Phase::Done, Some(0), 0),
            (Phase::Failed, Some(3), 3),
            (Phase::Failed, Some(137), 137),
            (Phase::Failed, None, 1),
            (Phase::Failed, Some(0), 1),
            (Phase::Cancelled, None, 130),
            (Phase::Cancelled, Some(143), 143),
        ] {
            assert_eq!(row(phase, exit), code, "{phase:?} {exit:?}");
        }
    }
}
