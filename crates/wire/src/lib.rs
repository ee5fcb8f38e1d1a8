//! What the processes of one machine say to each other over Unix sockets.
//!
//! * [`frame`]: lengths, kinds, limits; the same for every connection.
//! * [`agent`]: what is said to a node's agent and by it.
//! * [`job`]: what is to be run, in full: whose it is, the command, its surroundings.
//! * [`stream`]: the output of a worker, and a terminal that is attached to it.
//! * [`fault`]: places where a process may be told to die, so that tests can see what survives.
//!
//! It knows the words and the ids of attempts; it must not know who decides, and it does nothing.

pub mod agent;
pub mod fault;
pub mod frame;
pub mod job;
pub mod stream;
