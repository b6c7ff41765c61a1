//! NAS parallel benchmarks IS, MG, LU and CG, class A. memfree 5.
//!
//! IS is recorded: the ten iterations that its clock counts. MG, LU and CG, whose source no distribution has, are still skeletons: what they
//! send each iteration. Source: the NAS parallel benchmarks' specification and its message patterns. All compute by their operation counts,
//! at an assumed share of the processor's peak.

use super::recorded::{computing, replayed, trace};
use super::{cyclic, grid, job};
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::mpi::Rank;
use verbena_model::profile::{Applications, System};

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Integer sort: 2^23 keys.
    Is,
    /// Multigrid: 256^3.
    Mg,
    /// LU: 64^3, pipelined planes.
    Lu,
    /// Conjugate gradient: 14,000 rows.
    Cg,
}

impl Kernel {
    /// All four.
    pub const ALL: [Kernel; 4] = [Kernel::Is, Kernel::Mg, Kernel::Lu, Kernel::Cg];

    /// Operations of one iteration, all ranks.
    fn operations(self) -> f64 {
        match self {
            Kernel::Is => 78e6,
            Kernel::Mg => 3.9e9 / 4.0,
            Kernel::Lu => 119.3e9 / 250.0,
            Kernel::Cg => 1.5e9 / 15.0,
        }
    }
}

/// The trace of IS, and its iterations.
const INTEGER_SORT: &str = "nas-is";
const SORTS: u64 = 10;

/// Milliseconds of an iteration. IS was recorded on 2, 4 and 8 ranks.
pub fn nas(
    system: &System,
    applications: &Applications,
    kernel: Kernel,
    ranks: usize,
    nodes: usize,
) -> f64 {
    let speed = system.host.cpu.peak.0 * applications.nas_share.0;
    let alone = kernel.operations() / speed;
    let compute = Time::from_seconds(alone / ranks as f64);
    match kernel {
        Kernel::Is => integer_sort(system, ranks, nodes, alone),
        Kernel::Mg => iterations(system, ranks, nodes, move |rank| mg(rank, compute)),
        Kernel::Lu => iterations(system, ranks, nodes, move |rank| lu(rank, compute)),
        Kernel::Cg => iterations(system, ranks, nodes, move |rank| cg(rank, compute)),
    }
}

/// Milliseconds of an iteration of what was recorded, if one computes `alone` seconds on all ranks together. Each number of ranks has its own
/// factor, as the operations are the same, whatever the ranks.
fn integer_sort(system: &System, ranks: usize, nodes: usize, alone: f64) -> f64 {
    let trace = trace(INTEGER_SORT, ranks);
    let scale = alone * SORTS as f64 / computing(trace).seconds();
    replayed(trace, system, nodes, scale).seconds() * 1e3 / SORTS as f64
}

/// Milliseconds of an iteration of a skeleton.
fn iterations<F>(
    system: &System,
    ranks: usize,
    nodes: usize,
    iteration: impl Fn(Rank) -> F + Copy + 'static,
) -> f64
where
    F: Future<Output = ()> + 'static,
{
    const ITERATIONS: u64 = 3;
    let end = job(
        system,
        cyclic(ranks, nodes),
        Fidelity::Packet,
        |rank| async move {
            for _ in 0..ITERATIONS {
                iteration(rank.clone()).await;
            }
        },
    );
    end.seconds() * 1e3 / ITERATIONS as f64
}

/// Down and up the grids, faces in three dimensions on each.
async fn mg(rank: Rank, compute: Time) {
    let size = rank.size();
    rank.compute(compute).await;
    for level in (2..=8u32).chain((2..8).rev()) {
        let face = ((1u64 << (2 * level)) * 8 / 4).max(8);
        for dimension in 0..3 {
            let distance = (1usize << dimension) % size;
            if distance == 0 {
                continue;
            }
            let peer = rank.number ^ distance;
            if peer < size {
                rank.exchange(peer, face, peer).await;
                rank.exchange(peer, face, peer).await;
            }
        }
    }
    rank.all_reduce(8).await;
}

/// A wave over the planes: from the north-west corner to the south-east, and back.
async fn lu(rank: Rank, compute: Time) {
    const PLANES: u64 = 62;
    let (columns, rows) = grid(rank.size());
    let (x, y) = (rank.number % columns, rank.number / columns);
    let edge = |extent: usize| 64 / extent as u64 * 5 * 8;
    let piece = compute.scaled(1.0 / (2 * PLANES) as f64);
    for forward in [true, false] {
        let before = |at: usize, _extent: usize| at.checked_sub(1);
        let after = |at: usize, extent: usize| (at + 1 < extent).then_some(at + 1);
        type Step<'a> = &'a dyn Fn(usize, usize) -> Option<usize>;
        let (from, to): (Step<'_>, Step<'_>) = match forward {
            true => (&before, &after),
            false => (&after, &before),
        };
        for _ in 0..PLANES {
            if let Some(x) = from(x, columns) {
                rank.receive(x + y * columns).await;
            }
            if let Some(y) = from(y, rows) {
                rank.receive(x + y * columns).await;
            }
            rank.compute(piece).await;
            if let Some(x) = to(x, columns) {
                rank.send(x + y * columns, edge(rows)).await;
            }
            if let Some(y) = to(y, rows) {
                rank.send(x + y * columns, edge(columns)).await;
            }
        }
    }
}

/// 25 inner steps: sums along rows of the grid, a transpose, two short reductions.
async fn cg(rank: Rank, compute: Time) {
    const STEPS: u64 = 25;
    let (columns, _) = grid(rank.size());
    let part = 14_000 / columns as u64 * 8;
    for _ in 0..STEPS {
        rank.compute(compute.scaled(1.0 / STEPS as f64)).await;
        let row = rank.number / columns * columns;
        let mut distance = 1;
        while distance < columns {
            let peer = row + ((rank.number - row) ^ distance);
            if peer < rank.size() {
                rank.exchange(peer, part, peer).await;
            }
            distance *= 2;
        }
        let opposite = rank.size() - 1 - rank.number;
        if opposite != rank.number {
            rank.exchange(opposite, part, opposite).await;
        }
        for _ in 0..2 {
            rank.all_reduce(8).await;
        }
    }
}
