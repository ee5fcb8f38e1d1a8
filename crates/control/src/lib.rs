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
//! | what went wrong | what settles it |
//! |---|---|
//! | a message was lost | it is repeated under a new number, or a report that reflects a later message and does not list the attempt proves that it never arrives |
//! | a message came twice or late | hands ignore what is not newer than the last they heard |
//! | a report came late | dropped by its sequence; those of an earlier start of the control plane count only after Hello was heard |
//! | the control plane died | the next start has a higher incarnation, says Hello and listens |
//! | an attempt runs that nobody knows | it is told to leave, and forgotten when it has |

mod admit;
mod control;
mod dispatch;
mod input;
mod observe;
mod order;
mod pricing;

pub use control::{BadJournal, Control};
pub use input::{Deed, Effect, Input, Output, Refusal, Request};
