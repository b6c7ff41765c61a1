//! LAMMPS' rhodopsin benchmark: 32,000 atoms, long-range forces by PPPM. connectx_multicore 3.5.
//!
//! Recorded: 20 of its 100 steps, from the barrier where LAMMPS' "loop time" begins to the one where it ends, in which two lists of
//! neighbours are built as in any 20 steps. One thing is fitted to the paper's machine: what a step takes on one of its cores. One factor, that
//! of one rank, goes for all numbers of ranks: what more ranks compute more together is the program's, atoms at edges among it.

use super::recorded::{computing, replayed, trace};
use verbena_model::profile::{Applications, System};

/// The trace's name.
const RHODOPSIN: &str = "lammps-rhodo";
/// Steps that were recorded.
const STEPS: u64 = 20;

/// Milliseconds of a step on `ranks` ranks over `nodes` nodes: 1, 2, 4, 8 or 16 ranks, as were recorded.
pub fn lammps(system: &System, applications: &Applications, ranks: usize, nodes: usize) -> f64 {
    let alone = applications.rhodopsin_step.seconds() * STEPS as f64;
    let scale = alone / computing(trace(RHODOPSIN, 1)).seconds();
    let took = replayed(trace(RHODOPSIN, ranks), system, nodes, scale);
    took.seconds() * 1e3 / STEPS as f64
}
