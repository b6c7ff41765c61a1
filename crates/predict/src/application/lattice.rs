//! A lattice QCD code, parallel in two dimensions. rfio_infiniband, Figure 2.
//!
//! A sweep updates every local site: floating point on the core, fields through the node's memory, which the CPUs of a
//! node share; then the surfaces of two dimensions go to the neighbours.

use super::{grid, job};
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::profile::{Applications, System};

/// Extents of the lattice.
const LATTICE: [u64; 4] = [16, 16, 16, 32];

/// Mflop/s of each CPU with `ranks` ranks, `per_node` on a node.
pub fn lattice_per_cpu(
    system: &System,
    applications: &Applications,
    ranks: usize,
    per_node: usize,
) -> f64 {
    const SWEEPS: u64 = 3;
    let sites = LATTICE.iter().product::<u64>() / ranks as u64;
    let flops = sites * applications.qcd_flops.0;
    let speed = system.host.cpu.peak.0 * applications.qcd_share.0;
    let compute = Time::from_seconds(flops as f64 / speed);
    let traffic = sites * applications.qcd_bytes.0;
    let (columns, rows) = grid(ranks);
    let volume = LATTICE.iter().product::<u64>();
    // Half spinors of the surface, twelve numbers in single precision.
    let surface = move |extent: u64, parts: usize| volume / extent / parts as u64 * 48;
    let nodes = (0..ranks).map(|rank| rank / per_node).collect();
    let end = job(system, nodes, Fidelity::Packet, |rank| async move {
        let (x, y) = (rank.number % columns, rank.number / columns);
        for _ in 0..SWEEPS {
            // Piece by piece, so that the CPUs of a node share the memory as they go.
            const PIECES: u64 = 16;
            for _ in 0..PIECES {
                let begun = rank.process().now();
                let memory = rank
                    .process()
                    .node()
                    .memory()
                    .carry(begun, traffic / PIECES);
                let span = compute.scaled(1.0 / PIECES as f64);
                rank.compute(span.max(memory.since(begun))).await;
            }
            let east = (x + 1) % columns + y * columns;
            let west = (x + columns - 1) % columns + y * columns;
            let north = x + (y + 1) % rows * columns;
            let south = x + (y + rows - 1) % rows * columns;
            for (one, other, extent, parts, lattice) in [
                (east, west, columns, rows, LATTICE[2]),
                (north, south, rows, columns, LATTICE[3]),
            ] {
                if extent > 1 {
                    rank.exchange(one, surface(lattice, parts), other).await;
                    rank.exchange(other, surface(lattice, parts), one).await;
                }
            }
        }
    });
    (flops * SWEEPS) as f64 / end.seconds() / 1e6
}
