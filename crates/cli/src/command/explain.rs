//! `verbena explain`: breaks the time of one operation on a timing model down by stage, and names
//! the limit of a stream.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::number;
use crate::output::out;
use crate::profiles::{ModelOptions, print_remarks};
use verbena_bench::predicted::Predicting;
use verbena_bench::target::Target;
use verbena_calibrate::explain::{explain, explain_messages, is_stream, streams};
use verbena_report::file::replace;
use verbena_report::html::explanation;
use verbena_reproduce::mpi_benchmarks;
use verbena_workloads::{Mode, Options, find};

const NO_MODEL: &str = "only models can be explained: use --on model:PROFILE; `verbena list` names \
                        the profiles";

/// Arguments of `verbena explain`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Benchmark, e.g. latency.write; `verbena list` shows all
    benchmark: String,

    /// Choose the model: model:PROFILE[:message] or machine:NAME
    #[arg(long = "on", value_name = "TARGET")]
    target: Target,

    /// Use these message sizes, in bytes, KiB (4K) or MiB (1M)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8",
        value_parser = number::message_size)]
    sizes: Vec<usize>,

    /// Use these numbers of pairs in multi-pair benchmarks
    ///
    /// The pairs run in lockstep.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1",
        value_parser = number::between::<usize>(1..=512))]
    pairs: Vec<usize>,

    /// Use these transports: rc, uc, ud, xrc
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "rc",
        value_parser = ["rc", "uc", "ud", "xrc"])]
    transports: Vec<String>,

    /// Post messages up to this size inline
    #[arg(long, value_name = "BYTES", value_parser = number::inline_size)]
    inline: Option<u32>,

    #[command(flatten)]
    models: ModelOptions,

    /// Write the timelines to this HTML file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints the breakdown and writes the page of timelines if requested.
///
/// # Errors
///
/// Fails if the benchmark or model is unknown, the model does not support the benchmark, or the
/// page cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let target = std::slice::from_ref(&arguments.target);
    let (_, models) = arguments.models.find(target, NO_MODEL)?;
    let model = &models[0];
    let unknown = || {
        let name = &arguments.benchmark;
        Failure::Input(format!("no benchmark {name:?}; `verbena list` shows all"))
    };
    let system = model.machine.system();
    if let Some(benchmark) = find(&arguments.benchmark).filter(|one| is_stream(one)) {
        let options = options(&arguments);
        let found = streams(&model.machine, benchmark, &options, model.fidelity);
        let found = found.map_err(|error| Failure::Suite(error.to_string()))?;
        for stream in &found {
            out!("{}", stream.text(benchmark.name, model.machine.name()));
        }
        if !found.is_empty() {
            out!("\nOne message alone:\n");
        }
    }
    let explained = match (mpi_benchmarks::find(&arguments.benchmark), system) {
        (Some(entry), Some(system)) => {
            let sizes: Vec<u64> = arguments.sizes.iter().map(|&size| size as u64).collect();
            explain_messages(system, entry, &sizes, model.fidelity)
        }
        (Some(_), None) => {
            let (name, model) = (&arguments.benchmark, model.machine.name());
            let text = format!("{name} needs a message-passing library, and {model} has none");
            return Err(Failure::Input(text));
        }
        (None, _) => {
            let benchmark = find(&arguments.benchmark).ok_or_else(unknown)?;
            explain(
                model.machine.clone(),
                benchmark,
                options(&arguments),
                model.fidelity,
            )
        }
    };
    let explained = explained.map_err(|error| Failure::Suite(error.to_string()))?;
    if explained.is_empty() {
        let text = format!(
            "{} measures nothing on {}",
            arguments.benchmark,
            model.label()
        );
        return Err(Failure::Input(text));
    }
    let predicting = Predicting::of(model, &arguments.models.profiles.profiles())?;
    print_remarks([model]);
    arguments
        .models
        .profiles
        .report_basis([&arguments.target])?;
    let mut operations = Vec::new();
    for one in &explained {
        let (benchmark, system) = (&arguments.benchmark, model.machine.name());
        out!("{}", one.text(benchmark, system));
        if let Some(predicting) = &predicting {
            out!("{}", predicting.explained(benchmark, one));
        }
        operations.push(one.operation(benchmark));
    }
    if let Some(out) = &arguments.out {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let page = explanation(&model.label(), &command, &operations);
        replace(out, &page).map_err(|source| Failure::System {
            doing: "write the page",
            source,
        })?;
    }
    Ok(Exit::Success)
}

fn options(arguments: &Arguments) -> Options {
    Options {
        sizes: Some(arguments.sizes.clone()),
        pairs: Some(arguments.pairs.clone()),
        mode: Some(Mode::Lockstep),
        transports: Some(arguments.transports.clone()),
        inline: arguments.inline,
        ..Options::default()
    }
}
