//! Readers of recorded workloads.
//!
//! Every reader takes a [`Text`] (a file, decompressed and checked) and gives plain rows or one
//! [`TraceError`] that names the file, the line, the column and the way out. Nothing is guessed
//! silently and no input makes them panic.

mod error;
pub mod fgd;
pub mod jobs;
pub mod openb;
pub mod sequence;
mod table;
mod text;
mod units;

pub use error::TraceError;
pub use text::{MAX_LINE_BYTES, MAX_TEXT_BYTES, Text};
