//! LAMMPS' rhodopsin benchmark: 32,000 atoms, long-range forces by PPPM. connectx_multicore 3.5.
//!
//! Recorded: 20 of its 100 steps, between the two barriers that bound LAMMPS' "loop time". They
//! include two rebuilds of the neighbour list, as any 20 steps do. One value is fitted to the
//! paper's machine: the time of a step on one of its cores. The resulting factor of one rank
//! applies to all numbers of ranks, because any extra computing on more ranks is the program's own,
//! e.g. atoms at subdomain edges.

use super::recorded::{computing, replayed, trace};
use verbena_model::profile::{Applications, System};

const RHODOPSIN: &str = "lammps-rhodo";
const STEPS: u64 = 20;

/// Returns the time of a step in milliseconds on `ranks` ranks over `nodes` nodes. Recordings exist
/// for 1, 2, 4, 8 and 16 ranks.
pub fn lammps(system: &System, applications: &Applications, ranks: usize, nodes: usize) -> f64 {
    let alone = applications.rhodopsin_step.seconds() * STEPS as f64;
    let scale = alone / computing(trace(RHODOPSIN, 1)).seconds();
    let took = replayed(trace(RHODOPSIN, ranks), system, nodes, scale);
    took.seconds() * 1e3 / STEPS as f64
}
