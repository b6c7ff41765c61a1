//! Benchmarks on modelled systems. Each builds an idle system, runs processes on it in virtual time
//! and returns a figure in the papers' terms.

mod bandwidth;
mod file_service;
mod latency;
mod mpi;
mod operation;
mod stack;

pub use bandwidth::{Bandwidth, Direction, Rates, bandwidth};
pub use file_service::{Contents, Reading, Service, file_service};
pub use latency::{Latency, Start, latency};
pub use mpi::{
    Ranks, mpi_bandwidth, mpi_bandwidth_observed, mpi_latency, mpi_latency_observed, mpi_traced,
};
pub use operation::{Observed, Operation, run};
pub use stack::{ethernet_latency, ipoib_bandwidth, ipoib_latency};
