//! `verbena list`: the benchmarks, by group, and the systems that are modelled.

use std::io::Write;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::profiles::ProfileOptions;
use crate::service::catalogue;
use verbena_workloads::registry::ALL;

/// Which profiles.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    profiles: ProfileOptions,
}

/// Prints the list.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let library = arguments.profiles.library()?;
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
    let _ = writeln!(out, "Models (--on model:PROFILE)");
    for name in library.systems() {
        if let Ok(system) = library.system(name) {
            let _ = writeln!(out, "  {name:<28} {}", system.about);
        }
    }
    Ok(Exit::Success)
}
