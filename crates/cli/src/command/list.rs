//! `verbena list`: lists the benchmarks, by group, and the modelled systems.

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, outln};
use crate::profiles::ProfileOptions;
use crate::style::{Style, styled};
use verbena_bench::machines;
use verbena_bench_mpi::benchmarks;
use verbena_bench_mpi::report::described;
use verbena_fabric::model::Machine;
use verbena_report::html::Described;

/// Arguments of `verbena list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    profiles: ProfileOptions,

    /// List the assumed and inherited values of a model
    ///
    /// The most important first; `inherited` ones are those of an earlier generation.
    #[arg(long, value_name = "PROFILE", conflicts_with = "json")]
    basis: Option<String>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Everything {
    benchmarks: Vec<Described>,
    models: Vec<Modelled>,
    /// Saved machines of the user.
    machines: Vec<Modelled>,
}

#[derive(Serialize)]
struct Modelled {
    name: String,
    about: String,
    /// Number of assumed values; none for the software adapter.
    assumed: Option<usize>,
    /// Number of values of earlier generations.
    inherited: Option<usize>,
}

/// Prints the list.
///
/// # Errors
///
/// Fails if the profiles cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let library = arguments.profiles.library()?;
    if let Some(name) = &arguments.basis {
        let basis = library.basis(name);
        let basis = basis.map_err(|error| Failure::Input(error.to_string()))?;
        for value in basis.most_important() {
            outln!("{value}");
        }
        return Ok(Exit::Success);
    }
    let systems = Machine::names(&library).filter_map(|name| {
        let machine = Machine::of(&library, name).ok()?;
        let basis = library.basis(name).ok();
        Some(Modelled {
            name: name.to_owned(),
            about: machine.about().to_owned(),
            assumed: basis.as_ref().map(|basis| basis.assumed.len()),
            inherited: basis.as_ref().map(|basis| basis.inherited.len()),
        })
    });
    let everything = Everything {
        benchmarks: benchmarks().map(described).collect(),
        models: systems.collect(),
        machines: saved(),
    };
    match arguments.json {
        true => json(&everything),
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
        assumed: None,
        inherited: None,
    });
    saved.collect()
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
    outln!("  in brackets: assumed values + values of earlier generations");
    for model in &everything.models {
        let values = match (model.assumed, model.inherited) {
            (Some(assumed), Some(inherited)) => format!(" ({assumed} + {inherited})"),
            _ => String::new(),
        };
        outln!("  {:<28} {}{values}", model.name, model.about);
    }
    if !everything.machines.is_empty() {
        let heading = "Saved machines (--on machine:NAME)";
        outln!("{}", styled(Style::Bold, heading));
        for machine in &everything.machines {
            outln!("  {:<28} {}", machine.name, machine.about);
        }
    }
}
