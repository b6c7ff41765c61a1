//! `verbena list`: the benchmarks, by group.

use std::io::Write;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::service::catalogue;
use verbena_workloads::registry::ALL;

/// Nothing to choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Prints the list.
pub fn run(_arguments: Arguments) -> Result<Exit, Failure> {
    let mut last = None;
    let mut out = std::io::stdout().lock();
    for benchmark in ALL.iter().chain(catalogue::ALL) {
        if last != Some(benchmark.group) {
            // A reader that has seen enough (`verbena list | head -3`) is no failure.
            let _ = writeln!(out, "{}", benchmark.group.title());
            last = Some(benchmark.group);
        }
        let _ = writeln!(
            out,
            "  {:<28} {} ({})",
            benchmark.name, benchmark.answers, benchmark.source
        );
    }
    Ok(Exit::Success)
}
