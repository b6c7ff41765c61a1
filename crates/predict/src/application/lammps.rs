//! LAMMPS' rhodopsin benchmark: 32,000 atoms in a box, spatial decomposition, long-range forces by PPPM.
//! connectx_multicore 3.5.
//!
//! A step: pair and bonded forces (computing), exchange of ghost atoms in six swaps forward and six back, charges to the
//! grid, one FFT forward and three back with two transposes each among all ranks, one reduction.

use super::{cyclic, job};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Applications, System};

/// Atoms of the benchmark.
const ATOMS: f64 = 32_000.0;
/// Points of the PPPM grid (25 x 32 x 32), complex in double precision.
const GRID_BYTES: f64 = 25.0 * 32.0 * 32.0 * 16.0;
/// Edge of the box and cutoff with skin, in angstrom.
const BOX: f64 = 68.0;
const CUTOFF: f64 = 12.0;

/// Milliseconds of a step on `ranks` ranks over `nodes` nodes.
pub fn lammps(system: &System, applications: &Applications, ranks: usize, nodes: usize) -> f64 {
    const STEPS: u64 = 2;
    let compute = applications.rhodopsin_step.scaled(1.0 / ranks as f64);
    let edge = BOX / (ranks as f64).cbrt();
    // Ghosts on one face of a subdomain, three coordinates each.
    let density = ATOMS / BOX.powi(3);
    let swap = (density * CUTOFF.min(edge) * (edge + CUTOFF).powi(2) * 24.0) as u64;
    let transpose = (GRID_BYTES / (ranks * ranks) as f64) as u64;
    let end = job(
        system,
        cyclic(ranks, nodes),
        Fidelity::Packet,
        |rank| async move {
            let size = rank.size();
            for _ in 0..STEPS {
                rank.compute(compute).await;
                if size == 1 {
                    continue;
                }
                for direction in 0..3 {
                    let distance = (1usize << direction) % size;
                    let ahead = (rank.number + distance.max(1)) % size;
                    let behind = (rank.number + size - distance.max(1)) % size;
                    for _ in 0..2 {
                        rank.exchange(ahead, swap, behind).await;
                        rank.exchange(behind, swap, ahead).await;
                    }
                }
                for _ in 0..4 * 2 {
                    rank.all_to_all(transpose).await;
                }
                rank.all_reduce(48).await;
            }
        },
    );
    end.seconds() * 1e3 / STEPS as f64
}
