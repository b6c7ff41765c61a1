//! `verbena bench app.*`: whole programs over the user's MPI library. Most are third-party
//! programs; those that no package provides were implemented here from their specification and are
//! compiled like the program of `mpi.*`.
//!
//! [`catalogue`] lists the programs with their sources. `lammps`, `rhodopsin`, `hpcc`, `lattice`
//! and `nas` prepare the input and parse the output. `launch` runs a program over
//! the requested transport with a growing number of processes. It compares the result with a run
//! over shared memory, and checks the transport by counters as for `mpi.*`. `recorded` reports
//! the communication of a further, recorded run.

pub mod catalogue;
mod files;
mod hpcc;
mod lammps;
mod lattice;
mod launch;
mod nas;
mod outcome;
mod recorded;
mod rhodopsin;

pub(crate) use files::{Found, output_file};
pub(crate) use launch::Applications;
