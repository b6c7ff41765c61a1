//! `verbena bench app.*`: whole programs, over the user's own message-passing library. Most are others'; those that no package has were
//! written here from their specification, and are compiled as the program of `mpi.*` is.
//!
//! [`catalogue`] is what there is: what is started, what it reads ([`lammps`], [`rhodopsin`], [`hpcc`] and [`nas`] have their inputs
//! and read their outputs), and where to have it from. [`launch`] runs one over the way that was asked for, with a growing number of
//! processes, holds what it computed against the same run over shared memory, and the way against counters as for `mpi.*`. [`recorded`] is what
//! a further run, which is recorded, says of its communication.

pub mod catalogue;
mod hpcc;
mod lammps;
mod lattice;
mod launch;
mod nas;
mod outcome;
mod recorded;
mod rhodopsin;

pub use launch::{Applications, output_file};
