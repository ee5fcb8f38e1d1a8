//! The commands around `cleave up` in a build that leaves them out: listed, and they say so.

/// A command that takes anything and does nothing.
pub mod command {
    use std::{ffi::OsString, process::ExitCode};

    #[derive(clap::Args)]
    #[command(disable_help_flag = true)]
    pub struct Args {
        /// Not in this build
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _words: Vec<OsString>,
    }

    pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
        anyhow::bail!(
            "this build leaves `cleave up` and its commands out: \
             cargo build --release -p cleave"
        )
    }
}

pub use command as cancel;
pub use command as gpus;
pub use command as logs;
pub use command as ps;
pub use command as replay;
pub use command as run;
pub use command as submit;
pub use command as up;
pub use command as why;
