//! `verbena bench rfio.*`: the file service, measured from outside. One `rfiod`, the one beside this executable, and
//! client processes that read or write through the client library, on whichever adapter the target is.
//!
//! `catalogue` is what there is to measure, `launch` how; `daemon` and `team` are the processes, `client` is what runs in
//! a client process.

pub mod catalogue;
pub mod client;
mod daemon;
mod launch;
mod model;
mod team;

pub use launch::launch;
pub use model::{points, predict};
