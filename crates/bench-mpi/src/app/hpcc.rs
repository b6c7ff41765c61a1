//! HPC Challenge: LINPACK, transposition, random access, Fourier transform and message rings in one
//! program.

use super::files::Found;
use super::outcome::{Outcome, text};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::Metric;

const INPUT: &str = include_str!("../../programs/hpcc/hpccinf.txt");
/// Placeholders for the process grid in the input.
const ROWS: &str = "ROWS";
const COLUMNS: &str = "COLUMNS";

/// Metric name, HPCC's name, unit, factor to that unit, and direction of improvement.
const RESULTS: [(&str, &str, &str, f64, Better); 7] = [
    ("linpack-time", "HPL_time", "ns", 1e9, Better::Lower),
    ("linpack", "HPL_Tflops", "flop/s", 1e12, Better::Higher),
    (
        "transposition",
        "PTRANS_GBs",
        "bytes/s",
        1e9,
        Better::Higher,
    ),
    ("fourier", "MPIFFT_Gflops", "flop/s", 1e9, Better::Higher),
    (
        "random-access",
        "MPIRandomAccess_GUPs",
        "1/s",
        1e9,
        Better::Higher,
    ),
    (
        "ring-latency",
        "RandomlyOrderedRingLatency_usec",
        "ns",
        1e3,
        Better::Lower,
    ),
    (
        "ring-bandwidth",
        "RandomlyOrderedRingBandwidth_GBytes",
        "bytes/s",
        1e9,
        Better::Higher,
    ),
];

pub fn prepare(directory: &Path, _: &Found, processes: usize) -> io::Result<Vec<String>> {
    let (rows, columns) = grid(processes);
    let input = INPUT
        .replace(ROWS, &rows.to_string())
        .replace(COLUMNS, &columns.to_string());
    fs::write(directory.join("hpccinf.txt"), input)?;
    Ok(Vec::new())
}

/// Returns the most square grid with no more rows than columns, as recommended for LINPACK.
fn grid(processes: usize) -> (usize, usize) {
    let rows = (1..=processes.isqrt()).rev();
    let rows = rows
        .into_iter()
        .find(|rows| processes.is_multiple_of(*rows));
    rows.map_or((1, processes), |rows| (rows, processes / rows))
}

pub fn read(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join("hpccoutf.txt"))?)
}

/// Parses the summary at the end of the output: names and values.
fn parse(output: &str) -> Result<Outcome, String> {
    let summary = output
        .split_once("Begin of Summary section.")
        .and_then(|(_, rest)| rest.split_once("End of Summary section."));
    let (summary, _) = summary.ok_or("HPCC's output has no summary: the program ended early")?;
    let values: BTreeMap<&str, &str> = summary
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    if values.get("Success") != Some(&"1") {
        return Err("HPCC's own check of its results failed (Success is not 1)".to_owned());
    }
    let processes = values
        .get("CommWorldProcs")
        .and_then(|word| word.parse().ok());
    // -1 marks a figure that was not measured, such as rings with one process.
    let figure = |(name, theirs, unit, scale, better): (&str, &str, &str, f64, Better)| {
        let value: f64 = values.get(theirs)?.parse().ok()?;
        (value > 0.0 && value.is_finite())
            .then(|| Metric::figure(name, unit, better, value * scale))
    };
    let metrics: Vec<Metric> = RESULTS.into_iter().filter_map(figure).collect();
    if metrics
        .first()
        .is_none_or(|first| first.name != RESULTS[0].0)
    {
        return Err("HPCC's summary has no time of LINPACK".to_owned());
    }
    Ok(Outcome {
        processes: processes.ok_or("HPCC's summary lacks the number of processes")?,
        metrics,
        computed: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_grids_are_as_square_as_possible() {
        let grids = [1, 2, 6, 7, 12, 16].map(grid);
        assert_eq!(grids, [(1, 1), (1, 2), (2, 3), (1, 7), (3, 4), (4, 4)]);
    }

    #[test]
    fn the_input_file_sets_rows_and_columns_once() {
        assert!(INPUT.matches(ROWS).count() == 1 && INPUT.matches(COLUMNS).count() == 1);
    }

    #[test]
    fn a_failed_check_in_the_summary_gives_no_outcome() {
        let told = "x\nBegin of Summary section.\nSuccess=1\nCommWorldProcs=2\nHPL_time=0.5\n\
                    HPL_Tflops=0.002\n\
                    RandomlyOrderedRingLatency_usec=-1\nMPIFFT_Gflops=nan\n\
                    End of Summary section.\n";
        let outcome = parse(told).unwrap();
        let figures: Vec<(&str, f64)> = outcome
            .metrics
            .iter()
            .map(|one| (one.name.as_str(), one.value))
            .collect();
        assert_eq!(figures, [("linpack-time", 5e8), ("linpack", 2e9)]);
        assert!(parse(&told.replace("Success=1", "Success=0")).is_err());
        assert!(parse(&told.replace("End of", "")).is_err());
        assert!(parse(&told.replace("HPL_time", "HPL")).is_err());
    }
}
