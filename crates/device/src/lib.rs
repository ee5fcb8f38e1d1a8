//! What GPUs do: a pure device model with NVML's call order, and the procedures over it as step
//! machines.
//!
//! Three layers, each of which knows only the one before:
//!
//! * [`gpu`]: one GPU as NVML shows it. [`Call`](gpu::Call) in, [`Reply`](gpu::Reply) out. Whoever
//!   can execute a call and give its reply (this model, the real library) is a device.
//! * [`procedure`]: prepare, unprepare and recover for one GPU. One call out, one reply in.
//! * [`hands`]: a node's agent without its I/O: messages, replies and process events in, effects
//!   out, over a durable [`table`].
//!
//! The two upper layers look at what is, and choose the one next thing to do; they remember no
//! position in a script. So a repetition, a retry and a restart after a crash are the same code.

pub mod gpu;
pub mod hands;
pub mod procedure;
pub mod table;
