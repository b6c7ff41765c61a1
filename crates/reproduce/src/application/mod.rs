//! Programs of the papers: recorded ones (`recorded`), and Halo, which consists of messages only.

mod halo;
mod hpl;
mod lammps;
mod lattice;
mod nas;
mod recorded;

pub use halo::{HaloRun, halo, halo_run};
pub use hpl::hpl;
pub use lammps::lammps;
pub use lattice::lattice_per_cpu;
pub use nas::{Kernel, nas};

/// Returns the most nearly square two-dimensional grid for a number of ranks.
pub fn grid(ranks: usize) -> (usize, usize) {
    let mut rows = (ranks as f64).sqrt() as usize;
    while !ranks.is_multiple_of(rows) {
        rows -= 1;
    }
    (ranks / rows, rows)
}
