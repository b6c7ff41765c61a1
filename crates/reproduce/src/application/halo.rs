//! The Halo benchmark (NLOM): a two-dimensional exchange of the edges of an N by N subdomain, rows
//! first, then columns. connectx_multicore 3.4.

use super::grid;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::System;
use verbena_model::traffic::HotPort;
use verbena_replay::{cyclic, run_on_ranks};

/// Size of a model word in bytes.
const WORD: u64 = 4;

/// Result of an exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct HaloRun {
    /// Virtual time of one exchange in microseconds.
    pub micros: f64,
    /// Number of messages of all exchanges.
    pub messages: u64,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

/// Returns the time in microseconds of an exchange of `tile` words with each neighbour. `ranks`
/// ranks are distributed round-robin over `nodes` nodes.
pub fn halo(system: &System, ranks: usize, nodes: usize, tile: u64, fidelity: Fidelity) -> f64 {
    halo_run(system, ranks, nodes, tile, fidelity).micros
}

/// Like [`halo`], with the number of messages, for measurements of the model's own speed, and the
/// ports that they use most.
pub fn halo_run(
    system: &System,
    ranks: usize,
    nodes: usize,
    tile: u64,
    fidelity: Fidelity,
) -> HaloRun {
    const EXCHANGES: u64 = 6;
    let (columns, rows) = grid(ranks);
    let run = run_on_ranks(system, cyclic(ranks, nodes), fidelity, |rank| async move {
        let (x, y) = (rank.number % columns, rank.number / columns);
        let north = x + (y + 1) % rows * columns;
        let south = x + (y + rows - 1) % rows * columns;
        let east = (x + 1) % columns + y * columns;
        let west = (x + columns - 1) % columns + y * columns;
        for _ in 0..EXCHANGES {
            for (one, other, extent) in [(north, south, rows), (east, west, columns)] {
                if extent == 1 {
                    continue;
                }
                let receives = [rank.begin_receive(other), rank.begin_receive(one)];
                rank.send(one, tile * WORD).await;
                rank.send(other, tile * WORD).await;
                for receive in receives {
                    receive.await;
                }
            }
        }
    });
    let directions = [rows, columns].iter().filter(|&&extent| extent > 1).count();
    HaloRun {
        micros: run.end.micros() / EXCHANGES as f64,
        messages: 2 * directions as u64 * ranks as u64 * EXCHANGES,
        hot_ports: run.hot_ports,
    }
}
