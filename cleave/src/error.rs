//! How a failure is told, and the exit codes that scripts can trust.

use std::process::ExitCode;

/// An expectation did not hold.
pub const DIFFERENT: u8 = 1;
/// The input is bad, or the command could not do its work.
pub const BAD: u8 = 2;

/// Tells what went wrong on standard error. A reader that went away is no error.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let gone = error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    });
    if gone {
        return ExitCode::SUCCESS;
    }
    crate::screen::complain(&format!("cleave: {error:#}"));
    ExitCode::from(BAD)
}
