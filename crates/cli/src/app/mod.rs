//! `verbena bench app.*`: programs that nobody here wrote, whole, over the user's own message-passing library.
//!
//! [`catalogue`] is what there is: what is started, what it reads ([`lammps`], [`hpcc`] have their inputs and read their
//! outputs), and the package that has it. [`launch`] runs one over the way that was asked for, with a growing number of
//! processes, holds what it computed against the same run over shared memory, and the way against counters as for `mpi.*`.

pub mod catalogue;
mod hpcc;
mod lammps;
mod launch;
mod outcome;

pub use launch::Applications;
