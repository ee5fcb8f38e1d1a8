//! Places where a process may be told to die.
//!
//! `CLEAVE_DIE_AT=commit-before:17` kills the process, as `kill -9` would, when it comes to the
//! place `commit-before` for the 17th time. Without the variable nothing ever happens.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// The variable that names a place and how often it may be passed.
pub const VARIABLE: &str = "CLEAVE_DIE_AT";

static FATAL: OnceLock<Option<(String, u64)>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// This is the place of that name.
pub fn point(name: &str) {
    let fatal = FATAL.get_or_init(|| parse(&std::env::var(VARIABLE).ok()?));
    let Some((place, count)) = fatal else { return };
    if place == name && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count {
        // Whatever comes of it, this process does nothing more.
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

fn parse(text: &str) -> Option<(String, u64)> {
    let (place, count) = text.rsplit_once(':')?;
    Some((place.into(), count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_place_and_a_count() {
        let cases = [
            ("commit-before:17", Some(("commit-before", 17))),
            ("commit-before", None),
            ("x:", None),
            (":1", Some(("", 1))),
        ];
        for (text, place) in cases {
            let place = place.map(|(name, count)| (name.into(), count));
            assert_eq!(parse(text), place, "{text}");
        }
    }
}
