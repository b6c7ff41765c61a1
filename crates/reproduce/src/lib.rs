//! Computes the published claims and figures by the timing models: benchmarks and programs of the
//! papers, and published curves for validation. Has the table of MPI benchmarks, too, which the
//! models run as the suite runs them on hardware.
#![forbid(unsafe_code)]

pub mod anchored;
pub mod application;
pub mod bench;
pub mod claims;
pub mod effort;
pub mod figures;
pub mod ip_benchmarks;
pub mod live;
pub mod mpi_benchmarks;
pub mod mpi_effort;
pub mod pattern_effort;
pub mod sensitivity;
pub mod suite;
pub mod summary;
pub mod table;
pub mod validation;
pub mod workers;
