//! What is said to a node's agent and by it.
//!
//! Whoever connects says [`Open`] first. The agent looks at the peer's user id and answers with
//! [`Said::Welcome`], or with [`Said::Refused`] and the end of the connection.
//!
//! * [`Open::Control`]: then [`Told`] in, [`Said`] out, for as long as both live. There is one
//!   such connection; a newer one ends the older.
//! * [`Open::Logs`], [`Open::Attach`]: then the frames of [`crate::stream`].

use crate::job::Job;
use cleave_device::table::AttemptId;
use cleave_model::{message::Message, node::Node, observation::NodeReport};
use serde::{Deserialize, Serialize};

/// The version of everything in this crate. Peers of different versions part at once.
pub const PROTOCOL: u32 = 1;

/// The first message on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Open {
    /// A control plane that speaks this [`PROTOCOL`].
    Control(u32),
    /// Wants the output of an attempt.
    Logs(Logs),
    /// Wants to be the terminal, or the standard input, of an attempt.
    Attach(AttemptId),
}

/// Which output is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Whose.
    pub id: AttemptId,
    /// Leave out all but the last so many lines of what there is.
    pub tail: Option<u64>,
    /// Go on until the attempt has ended.
    pub follow: bool,
}

/// What a control plane tells an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// A message for the hands, with what is to be run where it is a placement.
    Order(Message, Option<Box<Job>>),
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// It is there.
    Welcome(Welcome),
    /// It will have nothing to do with the peer; why, and the way out.
    Refused(String),
    /// The whole state of its node.
    Report(NodeReport),
    /// Something that people should know.
    Note(Note),
}

/// An agent and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// Its [`PROTOCOL`].
    pub protocol: u32,
    /// What there is on the node.
    pub node: Node,
    /// Whether its GPUs are only pretended.
    pub simulated: bool,
    /// The user it runs as. One that is not root runs jobs of this user alone.
    pub uid: u32,
    /// Whether it runs jobs of root and of system users.
    pub root_jobs: bool,
    /// What does not work here and how to enable it, one sentence each.
    pub notes: Vec<String>,
}

/// Something that people should know about an attempt, a GPU or the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The attempt it is about.
    pub attempt: Option<AttemptId>,
    /// The GPU it is about, by device index.
    pub gpu: Option<u8>,
    /// What, in one sentence.
    pub text: String,
}
