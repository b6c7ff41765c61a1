//! The benchmarks: operations, patterns and parameters.
//!
//! A benchmark is an `async fn` over [`verbena_fabric::Fabric`]; it runs unchanged on hardware, on
//! the software adapter and on a model. Every process of the job runs the same function (SPMD) and
//! checks its rank; process 0 emits the results. A benchmark returns an error only if the run ends;
//! a failed point is a record. The [`registry`] is the table of all benchmarks.
//!
//! Structure of a benchmark, in the order of its file: purpose and source (header), the points
//! (parameters), wiring (`wiring`), a pass that checks the data (`test_data`), the timed step,
//! the metric with its definition and bound. Sampling and stopping are common (`sampling`,
//! [`rates`]), as is the agreement of all processes on whether a point failed ([`agreement`]).
#![forbid(unsafe_code)]
#![allow(async_fn_in_trait, reason = "single-threaded by the fabric's contract")]

pub mod agreement;
mod bandwidth;
mod baseline;
pub mod context;
mod disturbance;
mod internals;
pub mod ip;
pub mod ip_interface;
mod latency;
pub mod modelled;
mod pairs;
mod patterns;
pub mod rates;
pub mod registry;
mod sampling;
mod tcp;
mod test_data;
mod udp;
mod waiting_budget;
mod wiring;

pub use context::{Budget, Context, Mode, Options, RateBudget, Record, Sweep};
pub use registry::{Benchmark, Group, Processes, find, run};
pub use waiting_budget::WaitingBudget;

/// Baselines that a launcher measures itself, before any job: the bounds of results.
pub mod host {
    pub use crate::baseline::cache_line::measure as cache_line;
    pub use crate::baseline::copy::{measure as copy, measure_in_turn as copy_in_turn};
}
