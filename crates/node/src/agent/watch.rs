//! Watching over shims: each has a thread that waits for what it tells and for its end.

use super::{End, Event};
use crate::{
    home::Home,
    processes::{self, Traces},
    shim::ask::{Ask, Tell},
};
use cleave_device::table::AttemptId;
use cleave_wire::frame::{self, Frame};
use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc::{Sender, SyncSender, channel},
    thread,
    time::Duration,
};

/// Bytes; a machine may have thousands of these threads.
const STACK: usize = 256 << 10;
/// How long a shim may take to take in what it is told.
const TELL: Duration = Duration::from_secs(1);

/// What there is to watch.
pub(super) struct Watched {
    pub id: AttemptId,
    pub serial: u64,
    pub uid: u32,
    pub home: Home,
    pub cgroup: Option<PathBuf>,
    pub events: SyncSender<Event>,
}

/// Speaks to the shim in a home; `None` if there is none any more.
pub(super) fn greet(home: &Home) -> Option<UnixStream> {
    let mut shim = home.connect().ok()?;
    shim.set_write_timeout(Some(TELL)).ok()?;
    frame::write(&mut shim, &Frame::message(&Ask::Watch)).ok()?;
    Some(shim)
}

impl Watched {
    /// Watches on a thread of its own, which waits to be given the shim, where that is a child of
    /// this process.
    pub fn watch(self, shim: Option<&UnixStream>) -> io::Result<Sender<Child>> {
        let shim = shim.map(UnixStream::try_clone).transpose()?;
        let (give, take) = channel();
        let body = move || self.wait(shim, take.recv().ok());
        thread::Builder::new().stack_size(STACK).spawn(body)?;
        Ok(give)
    }

    fn wait(self, mut shim: Option<UnixStream>, child: Option<Child>) {
        let mut failed = None;
        let mut told = || frame::read(shim.as_mut()?).ok()??.parse::<Tell>().ok();
        while let Some(tell) = told() {
            match tell {
                Tell::Started => {
                    let _ = self
                        .events
                        .send(Event::Started(self.id.clone(), self.serial));
                }
                Tell::Failed(why) => failed = Some(why),
            }
        }
        self.home.await_end();
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        let end = match (self.home.exit_code(), failed) {
            (Some(code), _) => End::Code(code),
            (None, Some(why)) => End::Failed(why),
            (None, None) => {
                end_left(self.uid, &self.home, self.cgroup.as_deref());
                End::Lost
            }
        };
        let _ = self.events.send(Event::Over(self.id, self.serial, end));
    }
}

/// Ends what an attempt left whose shim died without an exit file.
pub(super) fn end_left(uid: u32, home: &Home, cgroup: Option<&Path>) {
    let (key, value) = home.mark();
    let variables = [format!("{key}={value}")];
    let traces = Traces {
        uid,
        variables: &variables,
        session: home.session(),
    };
    processes::end_left(&traces, cgroup);
    cgroup.into_iter().for_each(crate::cgroup::remove);
    // It may hold secrets, if the shim never came to take it.
    let _ = std::fs::remove_file(home.task());
}
