//! A person's terminal, lent to a job.

use cleave_wire::job::Size;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::{
    io::{IsTerminal, Read, stderr, stdin, stdout},
    thread,
};
use tokio::sync::mpsc;

/// Bytes that are read at once.
const CHUNK: usize = 4096;
/// Chunks that wait to be sent.
const WAITING: usize = 16;

/// Whether a person sits at both ends.
pub fn is_there() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// The terminal's size, if it has one.
pub fn size() -> Option<Size> {
    let size = tcgetwinsize(stdout())
        .or_else(|_| tcgetwinsize(stdin()))
        .ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}

/// Columns of standard error, if that is a terminal.
pub fn error_width() -> Option<usize> {
    let error = stderr();
    if !error.is_terminal() {
        return None;
    }
    let columns = tcgetwinsize(&error).map_or(80, |size| size.ws_col);
    Some(usize::from(columns).max(20))
}

/// A terminal that passes on every key; as it was before when dropped.
pub struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Takes standard input's terminal, if it is one.
    pub fn take() -> Self {
        let before = tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            // A terminal that went away is seen by what is read from it.
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &raw);
        }
        Self { before }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, before);
        }
    }
}

/// What is typed, from a thread of its own; the channel ends with the input.
pub fn keys() -> mpsc::Receiver<Vec<u8>> {
    let (keys, typed) = mpsc::channel(WAITING);
    thread::spawn(move || {
        let mut chunk = [0; CHUNK];
        while let Ok(length @ 1..) = stdin().read(&mut chunk) {
            if keys.blocking_send(chunk[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    typed
}
