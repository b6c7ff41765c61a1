//! `verbena bench rfio.*`: measures the file service from outside, with the `rfiod` beside this
//! executable and client processes that use the client library on the target's adapter.
//!
//! `catalogue` lists the benchmarks, `launch` runs them; `daemon` and `team` manage the processes,
//! and `client` runs in a client process.

pub mod catalogue;
pub mod client;
mod daemon;
mod launch;
mod model;
mod team;

pub use launch::launch;
pub use model::{points, predict};
