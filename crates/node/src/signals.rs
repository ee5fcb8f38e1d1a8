//! Signals: what the agent waits for, and the defaults that a job begins with.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Blocks the signals by which an agent is stopped, for this thread and those it will start; they
/// are to be waited for.
pub fn hold_stops() -> SigSet {
    let mut stops = SigSet::empty();
    stops.add(Signal::SIGTERM);
    stops.add(Signal::SIGINT);
    // It fails for signals that do not exist only.
    let _ = stops.thread_block();
    stops
}

/// Puts every signal back to its default action and blocks none: what somebody ignored when they
/// started the agent, and what the agent waits for, is no concern of a job's.
pub fn reset() {
    // It can't fail for a set that is valid.
    let _ = SigSet::empty().thread_set_mask();
    for number in Signal::iterator() {
        // SAFETY: `SigDfl` installs no handler, so nothing runs in a signal's context.
        #[allow(unsafe_code)]
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
}
