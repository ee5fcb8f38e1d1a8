//! The lobby: where the agent listens, who may come in, and what each connection is for.

use crate::output::{self, Live};
use cleave_model::message::Message;
use cleave_wire::{
    agent::{Open, PROTOCOL, Said, Told, Welcome},
    frame::{self, Frame},
    job::Job,
};
use rustix::net::sockopt::socket_peercred;
use std::{
    io,
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

/// Connections at a time.
const CONNECTIONS: usize = 256;
/// What waits for a control plane at most; one that is further behind is cut off.
const BEHIND: usize = 1_024;
/// How long a peer may take to say what it wants, and a control plane to take what it is told.
const OPEN: Duration = Duration::from_secs(10);
const TELL: Duration = Duration::from_secs(30);
/// How long a reader may stand still; people do.
const READ: Duration = Duration::from_secs(600);

/// What comes in from control planes. The number tells one link from the next.
#[derive(Debug)]
pub enum Visit {
    /// A link is there; through this the control plane is spoken to.
    Link(u64, SyncSender<Said>),
    /// An order came over a link.
    Told(u64, Message, Option<Box<Job>>),
    /// A link is gone, or is to be ended for this reason.
    Gone(u64, Option<String>),
}

/// The lobby.
pub struct Lobby<T> {
    /// The agent's directory.
    pub dir: PathBuf,
    /// What a control plane is greeted with.
    pub welcome: Welcome,
    /// Users who may come in, beside root.
    pub users: Vec<u32>,
    /// The homes in which a shim lives.
    pub live: Live,
    /// Where visits go.
    pub visits: SyncSender<T>,
    /// Makes what goes there of a visit.
    pub wrap: fn(Visit) -> T,
    /// Connections now.
    pub open: AtomicUsize,
    /// Links so far.
    pub links: AtomicU64,
}

impl<T: Send + 'static> Lobby<T> {
    /// Takes in whoever comes, for ever.
    pub fn accept(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, as a rule; that passes.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let before = self.open.fetch_add(1, Ordering::SeqCst);
            let lobby = Arc::clone(&self);
            let served = thread::Builder::new().spawn(move || {
                // Whatever goes wrong ends this connection and nothing else.
                let _ = lobby.serve(stream, before >= CONNECTIONS);
                lobby.open.fetch_sub(1, Ordering::SeqCst);
            });
            if served.is_err() {
                self.open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn serve(&self, mut stream: UnixStream, full: bool) -> io::Result<()> {
        stream.set_read_timeout(Some(OPEN))?;
        stream.set_write_timeout(Some(OPEN))?;
        let peer = socket_peercred(&stream)?.uid.as_raw();
        if peer != 0 && !self.users.contains(&peer) {
            let why = format!(
                "user {peer} may not speak to this agent: it answers to its own user, root and \
                 the user named by --control-uid"
            );
            return refuse(&mut stream, why);
        }
        if full {
            let why = format!("there are {CONNECTIONS} connections already: close some");
            return refuse(&mut stream, why);
        }
        let Some(frame) = frame::read(&mut stream)? else {
            return Ok(());
        };
        let open = match frame.parse::<Open>() {
            Ok(open) => open,
            Err(e) => return refuse(&mut stream, e.to_string()),
        };
        stream.set_read_timeout(None)?;
        match open {
            Open::Control(PROTOCOL) => self.control(stream),
            Open::Control(other) => {
                let why = format!(
                    "the agent speaks protocol {PROTOCOL} and the control plane {other}: use one \
                     release for both"
                );
                refuse(&mut stream, why)
            }
            Open::Logs(logs) => {
                stream.set_write_timeout(Some(READ))?;
                output::logs(&mut stream, &self.dir, &self.live, &logs)
            }
            Open::Attach(id) => {
                stream.set_write_timeout(Some(READ))?;
                output::attach(&mut stream, &self.dir, &self.live, &id)
            }
        }
    }

    fn control(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(TELL))?;
        let welcome = Said::Welcome(self.welcome.clone());
        frame::write(&mut stream, &Frame::message(&welcome))?;
        let link = self.links.fetch_add(1, Ordering::SeqCst) + 1;
        let (said, saying) = sync_channel(BEHIND);
        let out = stream.try_clone()?;
        thread::Builder::new().spawn(move || speak(out, &saying))?;
        self.visit(Visit::Link(link, said));
        let why = loop {
            match frame::read(&mut stream) {
                Ok(Some(frame)) => match frame.parse::<Told>() {
                    Ok(Told::Order(message, job)) => self.visit(Visit::Told(link, message, job)),
                    Err(e) => break Some(e.to_string()),
                },
                Err(e) if e.kind() == io::ErrorKind::InvalidData => break Some(e.to_string()),
                Ok(None) | Err(_) => break None,
            }
        };
        // The writing thread closes the connection once the loop lets go of the link.
        self.visit(Visit::Gone(link, why));
        Ok(())
    }

    fn visit(&self, visit: Visit) {
        // The loop is gone only when the process is about to be.
        let _ = self.visits.send((self.wrap)(visit));
    }
}

fn refuse(stream: &mut UnixStream, why: String) -> io::Result<()> {
    frame::write(stream, &Frame::message(&Said::Refused(why)))
}

/// Tells a control plane what is said, until the loop lets go of the link or the peer of us.
fn speak(mut stream: UnixStream, saying: &Receiver<Said>) {
    while let Ok(said) = saying.recv() {
        if frame::write(&mut stream, &Frame::message(&said)).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}
