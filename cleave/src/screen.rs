//! What goes to a terminal: text out, colour only where it is seen, progress on long work.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Writes text to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Writes a line to standard error.
pub fn complain(line: &str) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Columns of text that standard output shows side by side: what `COLUMNS` says, else what the
/// terminal has; unlimited for a file or a pipe.
pub fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|n| n.parse().ok());
    let seen = || terminal_size::terminal_size_of(std::io::stdout());
    let seen = || seen().map(|(width, _)| usize::from(width.0));
    said.or_else(seen).filter(|n| *n > 0).unwrap_or(usize::MAX)
}

/// Words filled into lines of at most so many columns; lines after the first begin with
/// `indent` blanks. A longer word stands alone and is left whole.
pub fn fill(text: &str, columns: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut at = 0;
    for (n, word) in text.split(' ').enumerate() {
        let wide = word.chars().count();
        if n > 0 && at + 1 + wide > columns && at > indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else if n > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += wide;
    }
    out
}

/// Whether standard output shows colour: a terminal, and the user did not refuse.
pub fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Text in bold, where that is seen.
pub fn bold(text: &str) -> String {
    if colour() {
        format!("\u{1b}[1m{text}\u{1b}[0m")
    } else {
        text.into()
    }
}

/// Text in a colour (a number of the basic palette, 31 red to 36 cyan), where that is seen.
pub fn tint(text: &str, number: u8) -> String {
    if colour() {
        format!("\u{1b}[{number}m{text}\u{1b}[0m")
    } else {
        text.into()
    }
}

/// A progress bar on standard error, drawn only on a terminal and at most ten times a second.
pub struct Progress {
    what: String,
    total: u64,
    began: Instant,
    drawn: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// For work of `total` steps.
    pub fn new(what: impl Into<String>, total: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self {
            what: what.into(),
            total,
            began: Instant::now(),
            drawn: None,
            shown,
        }
    }

    /// `done` steps are done.
    pub fn at(&mut self, done: u64) {
        let recent = self
            .drawn
            .is_some_and(|at| at.elapsed() < Duration::from_millis(100));
        if !self.shown || recent || self.total == 0 {
            return;
        }
        self.drawn = Some(Instant::now());
        let share = done as f64 / self.total as f64;
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = done as f64 / seconds.max(1e-3);
        let left = (self.total - done.min(self.total)) as f64 / rate.max(1e-3);
        let full = (share * 24.0).round() as usize;
        let bar = format!(
            "{}{}",
            "█".repeat(full.min(24)),
            "░".repeat(24 - full.min(24))
        );
        let line = format!(
            "{:<10.10} {bar} {:3.0} %  {rate:.0}/s  {left:.0} s left",
            self.what,
            share * 100.0
        );
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K");
        }
    }
}
