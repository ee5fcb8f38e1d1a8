//! What an attempt wrote, sent to whoever asks, and what a terminal sends to it.

use crate::{
    home::Home,
    log::{self, Piece, Reader, Stream},
    shim::ask::Ask,
    store::{Kept, Store},
};
use cleave_device::table::AttemptId;
use cleave_wire::{
    agent::Logs,
    frame::{self, Frame, Kind},
    stream::{Down, Up},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
};
use std::{
    collections::BTreeSet,
    io,
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// How long until what may have been missed is looked for.
const LOOK_MS: i64 = 200;
const WAIT_MS: i64 = 25;

/// The homes in which a shim lives, as the agent knows.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Mutex<BTreeSet<u64>>>);

impl Live {
    /// The set itself.
    pub fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, serial: u64) -> bool {
        self.lock().contains(&serial)
    }
}

/// Serves one who wants output.
///
/// # Errors
/// The client is gone, or the files can't be read.
pub fn logs(client: &mut UnixStream, dir: &Path, live: &Live, logs: &Logs) -> io::Result<()> {
    match find(client, dir, &logs.id, logs.follow)? {
        Found::Home(serial) => {
            let home = Home::of(dir, serial);
            send(client, &home, || live.has(serial), logs.tail, logs.follow)
        }
        Found::NotYet => say(client, &Down::End(None)),
        Found::Nothing => refuse(client, &logs.id),
    }
}

/// Serves one who wants to be at the terminal of an attempt.
///
/// # Errors
/// The client is gone, or the files can't be read.
pub fn attach(client: &mut UnixStream, dir: &Path, live: &Live, id: &AttemptId) -> io::Result<()> {
    let Found::Home(serial) = find(client, dir, id, true)? else {
        return refuse(client, id);
    };
    let home = Home::of(dir, serial);
    // An attempt that is over has nobody to speak to; its output is there.
    if let Ok(shim) = home.connect() {
        let input = client.try_clone()?;
        thread::Builder::new().spawn(move || relay(input, shim))?;
    }
    let sent = send(client, &home, || live.has(serial), None, true);
    // Ends the relay too.
    client.shutdown(Shutdown::Both)?;
    sent
}

/// Passes on what a terminal sends, until it or the shim is gone.
fn relay(mut from: UnixStream, mut shim: UnixStream) {
    let mut pass = || -> io::Result<()> {
        frame::write(&mut shim, &Frame::message(&Ask::Attach))?;
        while let Some(frame) = frame::read(&mut from)? {
            let frame = match frame.kind {
                Kind::In => frame,
                Kind::Message => Frame::message(&Ask::Up(frame.parse::<Up>()?)),
                Kind::Out | Kind::Err => return Ok(()),
            };
            frame::write(&mut shim, &frame)?;
        }
        Ok(())
    };
    // Whoever went first, the other sees it by the end of the connection.
    let _ = pass();
}

enum Found {
    Home(u64),
    NotYet,
    Nothing,
}

/// Finds the output of an attempt; if `wait`, of one that will be started, too.
fn find(client: &UnixStream, dir: &Path, id: &AttemptId, wait: bool) -> io::Result<Found> {
    let mut store = Store::open_to_look(dir).map_err(io::Error::other)?;
    loop {
        match store.kept(id).map_err(io::Error::other)? {
            Kept::Home(serial) => return Ok(Found::Home(serial)),
            Kept::Nothing => return Ok(Found::Nothing),
            Kept::NotYet if !wait => return Ok(Found::NotYet),
            Kept::NotYet => pause(client, None, WAIT_MS)?,
        }
    }
}

fn refuse(client: &mut UnixStream, id: &AttemptId) -> io::Result<()> {
    let (worker, attempt) = (&id.worker, id.attempt);
    let why = format!("no output of attempt {attempt} of {worker} is kept on this node");
    say(client, &Down::Refused(why))
}

fn say(client: &mut UnixStream, down: &Down) -> io::Result<()> {
    frame::write(client, &Frame::message(down))
}

/// Sends output; if it is damaged, says so where the damage begins.
fn send(
    client: &mut UnixStream,
    home: &Home,
    is_live: impl Fn() -> bool,
    tail: Option<u64>,
    follow: bool,
) -> io::Result<()> {
    match try_send(client, home, is_live, tail, follow) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            say(client, &Down::Refused(e.to_string()))
        }
        other => other,
    }
}

fn try_send(
    client: &mut UnixStream,
    home: &Home,
    is_live: impl Fn() -> bool,
    tail: Option<u64>,
    follow: bool,
) -> io::Result<()> {
    // The kernel gives only so many of them to one user; without one it is looked more often.
    let watch = follow.then(|| watch(home.path()).ok());
    let (mut reader, first) = match tail {
        Some(lines) => log::tail(home.path(), lines)?,
        None => (Reader::new(home.path()), None),
    };
    if let Some(piece) = first {
        show(client, piece)?;
    }
    loop {
        // Seen before the rest is read, so the rest is all there is.
        let over = !is_live() || home.exit_code().is_some();
        while let Some(piece) = reader.next_piece()? {
            show(client, piece)?;
        }
        match &watch {
            Some(Some(watch)) if !over => pause(client, Some(watch), LOOK_MS)?,
            Some(None) if !over => pause(client, None, WAIT_MS)?,
            _ => return say(client, &Down::End(home.exit_code())),
        }
    }
}

fn show(client: &mut UnixStream, piece: Piece) -> io::Result<()> {
    let (kind, payload) = match piece {
        Piece::Gap(bytes) => return say(client, &Down::Gap(bytes)),
        Piece::Bytes(Stream::Out, bytes) => (Kind::Out, bytes),
        Piece::Bytes(Stream::Err, bytes) => (Kind::Err, bytes),
    };
    frame::write(client, &Frame { kind, payload })
}

fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, path, what)?;
    Ok(watch)
}

/// Waits until something may have changed.
fn pause(client: &UnixStream, watch: Option<&OwnedFd>, at_most_ms: i64) -> io::Result<()> {
    // No event is asked for: that the client is gone is always told.
    let mut ready = vec![PollFd::new(client, PollFlags::empty())];
    ready.extend(watch.map(|watch| PollFd::new(watch, PollFlags::IN)));
    let timeout = Timespec {
        tv_sec: at_most_ms / 1_000,
        tv_nsec: at_most_ms % 1_000 * 1_000_000,
    };
    match poll(&mut ready, Some(&timeout)) {
        Err(rustix::io::Errno::INTR) => return Ok(()),
        other => drop(other?),
    }
    if !ready[0].revents().is_empty() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    if let Some(watch) = watch {
        let mut events = [0_u8; 4096];
        while rustix::io::read(watch, &mut events).is_ok_and(|count| count > 0) {}
    }
    Ok(())
}
