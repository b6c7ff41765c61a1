//! `verbena evaluate`: all benchmarks, one report.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::suite::options::MeasureOptions;
use crate::suite::session::Session;
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
    let several = arguments.options.targets.len() > 1;
    let mut runs = Vec::new();
    for target in &arguments.options.targets {
        let target = target.resolve()?;
        let directory = if several {
            out.join(target.label())
        } else {
            out.clone()
        };
        let session = Session {
            benchmarks: ALL.iter().collect(),
            target,
            options: &arguments.options,
            directory: Some(&directory),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        };
        runs.extend(session.run()?);
    }
    if runs.is_empty() {
        return Ok(Exit::Success);
    }
    let report = super::report::write(&out, &runs)?;
    println!("{}", report.display());
    Ok(super::bench::verdict(&runs))
}
