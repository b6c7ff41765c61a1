//! Converts DUMPI traces (sstsimulator/sst-dumpi): binary files, one a rank, with the arguments,
//! results and times of all MPI calls.
//!
//! The layout of files, records and arguments is that of `dumpi/common` (`io.c`, `iodefs.h`,
//! `dumpiio.c`, `funclabels.h`, `constants.h`) and `dumpi/libdumpi` at commit 1888f3a. The members
//! of communicators are missing in a trace; they are computed from the calls of all ranks that
//! create communicators and groups (`communicators`).

mod bytes;
mod call;
mod communicators;
mod error;
mod file;
mod function;
mod group;
mod rank;
mod request;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use rank::{Imported, import};

/// Predefined communicators (`dumpi_native_comms`).
const COMM_NULL: u16 = 1;
const COMM_WORLD: u16 = 2;
const COMM_SELF: u16 = 3;
