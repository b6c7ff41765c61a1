//! HPL: an LU factorisation on a grid of ranks. rfio_infiniband, Figure 1.
//!
//! Recorded at the paper's size: HPL's timed section, all panels. Its BLAS was simulated, not
//! executed (`papers/hpl`): each call takes its operations at a fixed rate or its operands at
//! memory bandwidth, whichever is longer. The recorded computing time is scaled so that the rate
//! becomes that of matrix multiplication on the paper's processor. Consecutive ranks share a node,
//! matching HPL's grid: two ranks of a node are neighbours in a row of it.

use super::recorded::{replayed_as, trace};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Applications, System};
use verbena_replay::recorded::Replay;

const HPL: &str = "hpl";
/// Rate of the simulated BLAS in flop/s: TOLD_FLOPS of papers/traces/record.
const TOLD: f64 = 4.08e9;
/// Rows of the matrix by number of ranks: for 26 those of the paper's figure, for fewer the number
/// of 128-row blocks that uses no more memory per rank.
const ROWS: [(usize, u64); 6] = [
    (1, 10_240),
    (2, 14_464),
    (4, 20_480),
    (8, 28_928),
    (16, 40_960),
    (26, 52_224),
];

/// Returns Gflop/s on `ranks` ranks with `per_node` ranks a node. Recordings exist for 1, 2, 4, 8,
/// 16 and 26 ranks.
pub fn hpl(system: &System, applications: &Applications, ranks: usize, per_node: usize) -> f64 {
    let (_, rows) = ROWS
        .into_iter()
        .find(|(number, _)| *number == ranks)
        .expect("a number of ranks that was recorded");
    let scale = TOLD / (system.host.cpu.peak.0 * applications.gemm.0);
    let replay = Replay {
        system,
        fidelity: Fidelity::Message,
        nodes: (0..ranks).map(|rank| rank / per_node).collect(),
        compute_scale: scale,
        memory_traffic: None,
    };
    let took = replayed_as(trace(HPL, ranks), &replay);
    operations(rows) / took.seconds() / 1e9
}

/// Returns the number of operations that HPL counts for a matrix of so many rows.
fn operations(rows: u64) -> f64 {
    let rows = rows as f64;
    (2.0 / 3.0 * rows + 3.0 / 2.0) * rows * rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_rows_equal_the_recording_script() {
        let script = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../papers/traces/record"
        ));
        assert!(script.contains(&format!("TOLD_FLOPS={TOLD:e} ")));
        for (ranks, rows) in ROWS {
            let (start, end) = (format!("hpl {ranks} "), format!(" {rows}"));
            let mut lines = script.lines();
            assert!(lines.any(|line| line.starts_with(&start) && line.ends_with(&end)));
        }
    }

    #[test]
    fn the_operation_count_includes_factorisation_and_solution() {
        // 2/3 N^3 + 3/2 N^2 for 6 rows.
        assert_eq!(operations(6), 198.0);
    }
}
