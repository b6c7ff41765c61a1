//! Communication skeletons of applications: their messages in their order, and computing in between by its cost.

mod halo;
mod hpl;
mod lammps;
mod lattice;
mod nas;

pub use halo::{HaloRun, halo, halo_run};
pub use hpl::hpl;
pub use lammps::lammps;
pub use lattice::lattice_per_cpu;
pub use nas::{Kernel, nas};

use crate::bench::run;
use std::future::Future;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::System;

/// Nodes for `ranks` ranks dealt out in turn.
pub fn cyclic(ranks: usize, nodes: usize) -> Vec<usize> {
    (0..ranks).map(|rank| rank % nodes).collect()
}

/// A two-dimensional grid as square as the number of ranks allows.
pub fn grid(ranks: usize) -> (usize, usize) {
    let mut rows = (ranks as f64).sqrt() as usize;
    while !ranks.is_multiple_of(rows) {
        rows -= 1;
    }
    (ranks / rows, rows)
}

/// Runs `program` on every rank; when the last has finished.
pub(crate) fn job<F>(
    system: &System,
    nodes: Vec<usize>,
    fidelity: Fidelity,
    program: impl Fn(Rank) -> F,
) -> Time
where
    F: Future<Output = ()> + 'static,
{
    let size = nodes.iter().max().map_or(1, |n| n + 1);
    let cluster = Cluster::new(system, size.max(2), fidelity);
    let world = World::new(&cluster, nodes);
    let tasks: Vec<_> = (0..world.size())
        .map(|rank| cluster.sim().spawn(program(world.rank(rank))))
        .collect();
    let sim = cluster.sim().clone();
    run(&cluster, async move {
        for task in tasks {
            task.await;
        }
        sim.now()
    })
}
