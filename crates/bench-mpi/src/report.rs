//! The report of runs, with the definitions of all benchmarks and the published figures.

use crate::benchmarks;
use std::path::{Path, PathBuf};
use verbena_bench::Failure;
use verbena_bench::published::{of_ip, published};
use verbena_report::Error;
use verbena_report::file::replace;
use verbena_report::html::{Beside, Described, FittedProfile, Reproduction, page};
use verbena_report::run_directory::{Loaded, REPORT};
use verbena_workloads::Benchmark;

/// Computed results for the report, beside the runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Computed<'a> {
    /// Published claims, computed by the models.
    pub reproduction: Option<&'a Reproduction>,
    /// Predictions of a profile fitted to part of the first run, for the rest of it.
    pub fitted_profile: Option<&'a FittedProfile>,
}

/// Writes the report to a directory and returns its path.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(directory: &Path, runs: &[Loaded], beside: &Computed<'_>) -> Result<PathBuf, Failure> {
    let path = directory.join(REPORT);
    write_file(&path, runs, beside)?;
    Ok(path)
}

/// Makes the labels of the runs unique, for the legend.
pub fn with_unique_labels(runs: &[Loaded]) -> Vec<Loaded> {
    let mut runs = runs.to_vec();
    for i in 1..runs.len() {
        if runs[..i]
            .iter()
            .any(|earlier| earlier.run.label == runs[i].run.label)
        {
            runs[i].run.label = format!("{} ({})", runs[i].run.label, i + 1);
        }
    }
    runs
}

/// Writes the report to a file, all of it or nothing.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_file(path: &Path, runs: &[Loaded], computed: &Computed<'_>) -> Result<(), Failure> {
    let runs = with_unique_labels(runs);
    let beside = Beside {
        published: &published()?,
        ip: &of_ip()?,
        reproduction: computed.reproduction,
        fitted_profile: computed.fitted_profile,
    };
    let text = page(&runs, &all_described(&runs), &beside);
    Ok(replace(path, &text).map_err(|error| Error::io(path, error))?)
}

/// Describes a benchmark.
pub fn described(benchmark: &Benchmark) -> Described {
    Described {
        name: benchmark.name.to_owned(),
        group: benchmark.group.title().to_owned(),
        answers: benchmark.answers.to_owned(),
        source: benchmark.source.to_owned(),
        axis: benchmark.axis.to_owned(),
    }
}

/// Describes the suite's benchmarks and those that occur only in imported runs.
fn all_described(runs: &[Loaded]) -> Vec<Described> {
    let mut all: Vec<Described> = benchmarks().map(described).collect();
    for point in runs.iter().flat_map(|run| &run.points) {
        if !all.iter().any(|known| known.name == point.benchmark) {
            all.push(Described {
                name: point.benchmark.clone(),
                group: "Imported".to_owned(),
                answers: "As the other tool measured it.".to_owned(),
                source: "import".to_owned(),
                axis: "size".to_owned(),
            });
        }
    }
    all
}
