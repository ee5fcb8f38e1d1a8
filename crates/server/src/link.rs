//! Links to the agents: one thread reads, one writes, and a broken link is made anew.

use crate::core::Entry;
use cleave_wire::{
    agent::{Open, PROTOCOL, Said, Told, Welcome},
    frame::{self, Frame},
};
use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Messages that wait for an agent at most; what is more is dropped and said again later.
const BACKLOG: usize = 10_000;
/// An agent that takes nothing for so long is dead.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two tries to reach an agent.
const PAUSE: Duration = Duration::from_millis(200);

/// An agent that is reached.
#[derive(Clone, Debug)]
pub struct Link(SyncSender<Told>);

impl Link {
    /// Tells the agent; a message that does not arrive is the same as one that is lost.
    pub fn tell(&self, told: Told) {
        let _ = self.0.try_send(told);
    }
}

/// Keeps a link to the agent at `path` for ever; `agent` names it to the loop.
pub fn keep(agent: usize, path: PathBuf, to: Sender<Entry>) {
    thread::spawn(move || {
        loop {
            match talk(agent, &path, &to) {
                // Nobody listens any more.
                Err(End::Loop) => return,
                Err(End::Refused(why)) => {
                    if to.send(Entry::Unreached(agent, why)).is_err() {
                        return;
                    }
                    thread::sleep(PAUSE * 10);
                }
                Err(End::Io) => thread::sleep(PAUSE),
                Ok(never) => match never {},
            }
        }
    });
}

enum End {
    /// The control plane is gone.
    Loop,
    /// The agent wants nothing to do with us.
    Refused(String),
    /// The link broke.
    Io,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

fn talk(agent: usize, path: &Path, to: &Sender<Entry>) -> Result<std::convert::Infallible, End> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut from = stream.try_clone()?;
    let mut out = stream.try_clone()?;
    frame::write(&mut out, &Frame::message(&Open::Control(PROTOCOL)))?;
    let welcome = match said(&mut from)? {
        Said::Welcome(welcome) if welcome.protocol == PROTOCOL => welcome,
        Said::Welcome(Welcome { protocol, .. }) => {
            let why = format!("speaks protocol {protocol}, not {PROTOCOL}: update both");
            return Err(End::Refused(why));
        }
        Said::Refused(why) => return Err(End::Refused(why)),
        Said::Report(_) | Said::Note(_) => return Err(End::Io),
    };
    let (sender, receiver) = sync_channel(BACKLOG);
    thread::spawn(move || write(&stream, &receiver));
    let came = Entry::Came(agent, Box::new(welcome), Link(sender));
    to.send(came).map_err(|_| End::Loop)?;
    let end = loop {
        let entry = match said(&mut from) {
            Ok(Said::Report(report)) => Entry::Report(report),
            Ok(Said::Note(note)) => Entry::Note(note),
            Ok(Said::Refused(why)) => break End::Refused(why),
            Ok(Said::Welcome(_)) => continue,
            Err(end) => break end,
        };
        to.send(entry).map_err(|_| End::Loop)?;
    };
    to.send(Entry::Gone(agent)).map_err(|_| End::Loop)?;
    Err(end)
}

fn said(from: &mut UnixStream) -> Result<Said, End> {
    let frame = frame::read(from)?.ok_or(End::Io)?;
    frame.parse().map_err(|_| End::Io)
}

/// Writes until either side is gone.
fn write(stream: &UnixStream, from: &Receiver<Told>) {
    let mut out = stream;
    while let Ok(told) = from.recv() {
        if frame::write(&mut out, &Frame::message(&told)).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}
