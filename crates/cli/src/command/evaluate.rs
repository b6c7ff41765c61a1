//! `verbena evaluate`: all benchmarks, one report.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::suite::measure::measure;
use crate::suite::options::MeasureOptions;
use verbena_workloads::Benchmark;
use verbena_workloads::registry::ALL;

/// What to evaluate.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    options: MeasureOptions,

    /// Where results and report go [default: out/evaluate-SECONDS]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs all benchmarks on each target and draws the report.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.options.check()?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        PathBuf::from(format!("out/evaluate-{now}"))
    });
    let all: Vec<&'static Benchmark> = ALL.iter().collect();
    let runs = measure(&all, &arguments.options, Some(&out), |_| ())?;
    if runs.is_empty() {
        return Ok(Exit::Success);
    }
    let report = super::report::write(&out, &runs)?;
    println!("{}", report.display());
    Ok(super::bench::verdict(&runs))
}
