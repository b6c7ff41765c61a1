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

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::System;

/// Distributes `ranks` ranks over the nodes round-robin.
pub fn cyclic(ranks: usize, nodes: usize) -> Vec<usize> {
    (0..ranks).map(|rank| rank % nodes).collect()
}

/// Returns the most nearly square two-dimensional grid for a number of ranks.
pub fn grid(ranks: usize) -> (usize, usize) {
    let mut rows = (ranks as f64).sqrt() as usize;
    while !ranks.is_multiple_of(rows) {
        rows -= 1;
    }
    (ranks / rows, rows)
}

/// Runs `program` on every rank and returns the time when the last one finishes. At message
/// fidelity, nodes are places of the simulation.
///
/// # Panics
///
/// If a rank waits for an event that never comes: an error in the program, not in its input.
pub(crate) fn job<F>(
    system: &System,
    nodes: Vec<usize>,
    fidelity: Fidelity,
    program: impl Fn(Rank) -> F,
) -> Time
where
    F: Future<Output = ()> + 'static,
{
    let size = nodes.iter().max().map_or(1, |n| n + 1).max(2);
    let cluster = match fidelity {
        Fidelity::Packet => Cluster::new(system, size, fidelity),
        Fidelity::Message => Cluster::of_places(system, size),
    };
    let world = World::new(&cluster, nodes);
    let sim = cluster.sim();
    let finished = Rc::new(Cell::new((0, Time::ZERO)));
    for rank in 0..world.size() {
        let program = program(world.rank(rank));
        let (own, finished) = (sim.clone(), finished.clone());
        sim.start_in(world.node(rank), async move {
            program.await;
            let (ranks, last) = finished.get();
            finished.set((ranks + 1, last.max(own.now())));
        });
    }
    sim.run();
    let (ranks, last) = finished.get();
    assert_eq!(ranks, world.size(), "deadlock: a rank waits forever");
    cluster.finish();
    last
}
