//! Sans-I/O control plane: the whole life of an action, written once.
//!
//! Requests, observations, early hints and the passing of time go in; journal records, effects
//! (each with the record it waits for) and the time of the next call come out. The simulator,
//! the one-machine server and the Kubernetes shell differ only in who feeds and who carries out.
//!
//! ```text
//! input(..)*            collect: nothing happens yet
//! close(now, sink)   -> records: commit them together, in order, before anything else
//! durable(n)         -> effects: carry them out in order
//! ```
//!
//! A crash at any point between these calls is the same as one before or after: what was not
//! committed was never told to anyone, and what was told is found again in the journal by
//! [`Control::restore`] and settled by the next report of each node.
//!
//! Hands are expected to report after every message they hear, after every change, and every few
//! seconds even if nothing is new: what is told without a record (Hello, the end of an unknown
//! attempt, leave to forget) is repeated only when a report shows that it did not arrive. Backends
//! without reports show attempts one by one ([`Input::Attempt`]).
//!
//! * A message was lost: it is repeated under a new number, or a report that reflects a later
//!   message and does not list the attempt proves that it never arrives.
//! * A message came twice or late: hands ignore what is not newer than the last they heard.
//! * A report came late: it is dropped by its sequence; one that answers to an earlier start of
//!   the control plane does not count at all.
//! * The control plane died: its next start has a higher incarnation, says Hello and listens.
//! * An attempt runs that nobody knows: it is told to leave, and forgotten when it has.

mod admit;
mod control;
mod dispatch;
mod input;
mod journal;
mod observe;
mod order;
mod pricing;

pub use control::Control;
pub use input::{Deed, Effect, Input, Output, Refusal, Request};
pub use journal::BadJournal;
