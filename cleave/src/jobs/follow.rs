//! The output of an attempt to one's own output, exactly once, whatever happens to the server.

use super::text::count;
use crate::{
    client::{Client, Failure, Frames, PATIENCE, Piece, escape},
    screen,
};
use cleave_wire::stream::Down;
use std::{
    future::Future,
    io::{self, Write},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// How often a server that went away is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Which output.
#[derive(Clone, Debug)]
pub struct Source {
    /// The job.
    pub name: String,
    /// Which of its workers.
    pub worker: u32,
    /// Which attempt; the latest if `None`.
    pub attempt: Option<u32>,
    /// The last lines of what there is, alone.
    pub tail: Option<u64>,
    /// Go on until the attempt has ended.
    pub follow: bool,
}

impl Source {
    fn path(&self) -> String {
        let mut path = format!(
            "/v1/jobs/{}/logs?worker={}",
            escape(&self.name),
            self.worker
        );
        if let Some(attempt) = self.attempt {
            path += &format!("&attempt={attempt}");
        }
        if let Some(tail) = self.tail {
            path += &format!("&tail={tail}");
        }
        path + &format!("&follow={}", self.follow)
    }
}

/// Asks again while the server is away, at most for [`PATIENCE`].
pub async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut since = None;
    loop {
        match ask().await {
            Err(failure) if failure.passes() => {
                let since = since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(failure);
                }
                sleep(LOOK).await;
            }
            result => return result,
        }
    }
}

/// How a stream of frames came to its end.
#[derive(Debug)]
pub enum End {
    /// The attempt has ended, or there is no more for now.
    Over,
    /// There is no such output; why.
    Nothing(String),
    /// The connection broke.
    Cut,
}

/// How much of an attempt's output was passed on.
#[derive(Debug, Default)]
pub struct Position {
    /// Bytes that are behind.
    done: u64,
    /// Whether positions can't be compared, as the stream began somewhere.
    loose: bool,
}

impl Position {
    /// Passes on what `frames` bring beyond this position.
    pub async fn pass_on(&mut self, frames: &mut Frames) -> anyhow::Result<End> {
        let mut at = 0;
        loop {
            let (error, bytes) = match frames.next().await {
                Err(failure) if !failure.passes() => return Err(failure.into()),
                Err(_) | Ok(None) => return Ok(End::Cut),
                Ok(Some(Piece::Out(bytes))) => (false, bytes),
                Ok(Some(Piece::Err(bytes))) => (true, bytes),
                Ok(Some(Piece::Down(Down::End(_)))) => return Ok(End::Over),
                Ok(Some(Piece::Down(Down::Refused(why)))) => return Ok(End::Nothing(why)),
                Ok(Some(Piece::Down(Down::Gap(bytes)))) => {
                    at += bytes;
                    if at > self.done && !self.loose {
                        let lost = count(at - self.done, "byte");
                        screen::complain(&format!("cleave: {lost} of output no longer kept"));
                        self.done = at;
                    }
                    continue;
                }
            };
            let new = if self.loose {
                &bytes[..]
            } else {
                let known = self.done.saturating_sub(at).min(bytes.len() as u64);
                at += bytes.len() as u64;
                self.done = self.done.max(at);
                &bytes[known as usize..]
            };
            put(error, new)?;
        }
    }
}

fn put(error: bool, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if error {
        return io::stderr().lock().write_all(bytes);
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Passes on the output of an attempt to its end.
pub async fn output(client: &Client, source: &Source) -> anyhow::Result<End> {
    let mut source = source.clone();
    let mut position = Position {
        done: 0,
        loose: source.tail.is_some(),
    };
    loop {
        let path = source.path();
        let mut frames = if source.follow {
            patiently(|| client.frames(&path)).await?
        } else {
            client.frames(&path).await?
        };
        match position.pass_on(&mut frames).await? {
            End::Cut if source.follow => sleep(LOOK).await,
            end => return Ok(end),
        }
        if source.tail.is_some() {
            // Where the last lines began is not known any more: go on from here.
            source.tail = Some(0);
            screen::complain("cleave: the server went away; output from meanwhile may be missing");
        }
    }
}
