//! The output of a worker, and a terminal that is attached to it.
//!
//! Bytes travel in frames of their [`Kind`](crate::frame::Kind). Towards the worker: `In`, and
//! [`Up`] as messages. From it: `Out` and `Err`, and [`Down`] as messages; the last frame of a
//! whole stream is [`Down::End`], so a stream that ends without one was cut.

use crate::job::Size;
use serde::{Deserialize, Serialize};

/// What a terminal tells a worker beside bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Up {
    /// The terminal has this size now.
    Resize(Size),
    /// Nothing more comes on standard input.
    EndOfInput,
    /// A signal for the foreground processes, by its number: 1, 2, 3 or 15.
    Signal(i32),
}

/// What is told of a worker beside bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Down {
    /// So many bytes of the oldest output are no longer kept.
    Gap(u64),
    /// That is all: the exit code if the attempt has ended, 128 and more for a signal.
    End(Option<i32>),
    /// There is no such output; why.
    Refused(String),
}
