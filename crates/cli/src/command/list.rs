//! `verbena list`: lists the benchmarks, by group, and the modelled systems.

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{data, outln};
use crate::profiles::ProfileOptions;
use crate::style::{Style, styled};
use verbena_bench::machines;
use verbena_bench::service::catalogue as service;
use verbena_bench_mpi::{app, catalogue as mpi};
use verbena_fabric::model::Machine;
use verbena_workloads::Benchmark;
use verbena_workloads::registry::ALL;

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
    benchmarks: Vec<Listed>,
    models: Vec<Modelled>,
    /// Saved machines of the user.
    machines: Vec<Modelled>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    group: &'static str,
    answers: &'static str,
    source: &'static str,
    axis: &'static str,
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
        benchmarks: benchmarks().map(listed).collect(),
        models: systems.collect(),
        machines: saved(),
    };
    match arguments.json {
        true => {
            let text = serde_json::to_string_pretty(&everything).expect("names are plain data");
            data!("{text}\n");
        }
        false => table(&everything),
    }
    Ok(Exit::Success)
}

/// Returns the saved machines; none if they cannot be read.
fn saved() -> Vec<Modelled> {
    let Ok(directory) = machines::directory() else {
        return Vec::new();
    };
    let names = machines::names(&directory).unwrap_or_default();
    let about = |name: &String| match machines::load(&directory, name) {
        Ok(saved) => super::machine::about(&saved),
        Err(failure) => format!("not usable: {failure}"),
    };
    let saved = names.into_iter().map(|name| Modelled {
        about: about(&name),
        name,
    });
    saved.collect()
}

/// Returns all benchmarks, including those of MPI, applications and the file service.
pub fn benchmarks() -> impl Iterator<Item = &'static Benchmark> {
    ALL.iter()
        .chain(mpi::all())
        .chain(app::catalogue::ALL.iter().map(|one| &one.benchmark))
        .chain(service::ALL)
}

fn listed(benchmark: &'static Benchmark) -> Listed {
    Listed {
        name: benchmark.name,
        group: benchmark.group.title(),
        answers: benchmark.answers,
        source: benchmark.source,
        axis: benchmark.axis,
    }
}

fn table(everything: &Everything) {
    let mut last = "";
    for one in &everything.benchmarks {
        if last != one.group {
            outln!("{}", styled(Style::Bold, one.group));
            last = one.group;
        }
        outln!("  {:<28} {} ({})", one.name, one.answers, one.source);
    }
    let heading = "Models (--on model:PROFILE)";
    outln!("{}", styled(Style::Bold, heading));
    for model in &everything.models {
        outln!("  {:<28} {}", model.name, model.about);
    }
    if !everything.machines.is_empty() {
        let heading = "Saved machines (--on machine:NAME)";
        outln!("{}", styled(Style::Bold, heading));
        for machine in &everything.machines {
            outln!("  {:<28} {}", machine.name, machine.about);
        }
    }
}
