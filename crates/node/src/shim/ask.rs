//! What an agent asks of a shim, and what a shim tells. Bytes for a terminal go as `In` frames.

use cleave_wire::stream::Up;
use serde::{Deserialize, Serialize};

/// What is asked of a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Tell whether the job was started.
    Watch,
    /// Tell all its processes to leave.
    Terminate,
    /// End all its processes.
    Kill,
    /// Somebody is at the terminal for as long as this connection is open.
    Attach,
    /// From whoever is at the terminal.
    Up(Up),
}

/// What a shim tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tell {
    /// The job runs, or ran.
    Started,
    /// The job was never started; why.
    Failed(String),
}
