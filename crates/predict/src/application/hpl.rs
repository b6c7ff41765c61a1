//! HPL: LU factorisation with look-ahead of one panel on a grid of P by Q ranks. rfio_infiniband, Figure 1.
//!
//! For each panel: its column of ranks factorises it (at a fraction of the matrix multiplication's speed, with a
//! reduction for each of its columns lumped together), broadcasts it along the rows, rows are exchanged along the
//! columns, and all update what is left. The update of one panel hides the broadcast of the next.

use super::job;
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::profile::{Applications, System};

/// Columns of a panel.
const BLOCK: u64 = 128;
/// Panel factorisation against matrix multiplication.
const PANEL_SHARE: f64 = 0.3;

/// Gflop/s of an N by N system on `p` by `q` ranks, `per_node` ranks a node. Every `stride`-th panel is computed and
/// stands for those until the next.
pub fn hpl(
    system: &System,
    applications: &Applications,
    (p, q): (usize, usize),
    per_node: usize,
    n: u64,
) -> f64 {
    let speed = system.host.cpu.peak.0 * applications.gemm.0;
    let panels = n / BLOCK;
    let stride = (panels / 40).max(1);
    let nodes = (0..p * q).map(|rank| rank / per_node).collect();
    let end = job(system, nodes, Fidelity::Message, |rank| async move {
        let (row, column) = (rank.number % p, rank.number / p);
        let column_ranks = |c: usize| (0..p).map(|r| r + c * p).collect::<Vec<_>>();
        let row_ranks: Vec<_> = (0..q).map(|c| row + c * p).collect();
        for panel in (0..panels).step_by(stride as usize) {
            let left = (n - panel * BLOCK) as f64;
            let owner = (panel / stride) as usize % q;
            let rows = left / p as f64;
            if column == owner {
                let flops = rows * (BLOCK * BLOCK) as f64;
                rank.compute(Time::from_seconds(flops / (speed * PANEL_SHARE)))
                    .await;
                for peer in column_ranks(column) {
                    if peer != rank.number {
                        rank.exchange(peer, BLOCK * BLOCK * 8, peer).await;
                    }
                }
            }
            let bytes = (rows * BLOCK as f64 * 8.0) as u64;
            rank.broadcast_among(&row_ranks, row + owner * p, bytes)
                .await;
            let swap = (left / q as f64 * BLOCK as f64 * 8.0 / p as f64) as u64;
            for peer in column_ranks(column) {
                if peer != rank.number {
                    rank.exchange(peer, swap, peer).await;
                }
            }
            let flops = 2.0 * rows * (left / q as f64) * BLOCK as f64;
            rank.compute(Time::from_seconds(flops / speed)).await;
        }
    });
    let n = n as f64;
    let flops = 2.0 / 3.0 * n * n * n;
    flops / (end.seconds() * stride as f64) / 1e9
}
