//! `verbena bench rfio.*`: measures the file service from outside, with the `rfiod` beside this
//! executable and client processes that use the client library on the target's adapter.
//!
//! `catalogue` lists the benchmarks, `launch` runs them; `daemon` and `team` manage the processes,
//! and `client` runs in a client process.

pub mod catalogue;
mod client;
mod daemon;
mod launch;
mod model;
mod team;

pub use client::run as run_client;
pub(crate) use launch::launch;
pub(crate) use model::points;
pub use model::predict_beside;
