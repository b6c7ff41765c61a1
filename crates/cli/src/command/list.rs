//! `verbena list`: lists the benchmarks, by group, and the modelled systems.

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, outln};
use crate::profiles::ProfileOptions;
use crate::style::{Style, styled};
use verbena_bench_mpi::benchmarks;
use verbena_bench_mpi::report::described;
use verbena_fabric::model::Machine;
use verbena_report::html::Described;

/// Which profiles.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    profiles: ProfileOptions,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Everything {
    benchmarks: Vec<Described>,
    models: Vec<Modelled>,
}

#[derive(Serialize)]
struct Modelled {
    name: String,
    about: String,
}

/// Prints the list.
///
/// # Errors
///
/// Fails if the profiles cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let library = arguments.profiles.library()?;
    let systems = Machine::names(&library).filter_map(|name| {
        let machine = Machine::of(&library, name).ok()?;
        Some(Modelled {
            name: name.to_owned(),
            about: machine.about().to_owned(),
        })
    });
    let everything = Everything {
        benchmarks: benchmarks().map(described).collect(),
        models: systems.collect(),
    };
    match arguments.json {
        true => json(&everything),
        false => table(&everything),
    }
    Ok(Exit::Success)
}

fn table(everything: &Everything) {
    let mut last = "";
    for one in &everything.benchmarks {
        if last != one.group {
            outln!("{}", styled(Style::Bold, &one.group));
            last = &one.group;
        }
        outln!("  {:<28} {} ({})", one.name, one.answers, one.source);
    }
    let heading = "Models (--on model:PROFILE)";
    outln!("{}", styled(Style::Bold, heading));
    for model in &everything.models {
        outln!("  {:<28} {}", model.name, model.about);
    }
}
