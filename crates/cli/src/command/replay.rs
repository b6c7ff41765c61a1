//! `verbena replay`: replays a recorded MPI program, or a message schedule in GOAL's text format,
//! on a timing model.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::profiles::{AnchorOptions, ProfileOptions, print_remarks};
use crate::replay::source::Source;
use crate::replay::{recorded, schedule};
use verbena_bench::model_target::ModelTarget;
use verbena_bench::target::{Found, Target};

const NO_MODEL: &str = "traces and schedules run on models only: use --on model:PROFILE; \
                        `verbena list` names the profiles";

/// What, on what.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Traces of `verbena record`, or schedules
    ///
    /// A trace is a directory, or a file with all ranks. Several are replayed in order, e.g. of the
    /// same program on more ranks. A schedule is a file in GOAL's format, e.g. from LogGOPSim's
    /// schedgen.
    #[arg(value_name = "TRACE|FILE", required = true)]
    sources: Vec<PathBuf>,

    /// Choose the model: model:PROFILE[:message]; may be repeated
    ///
    /// machine:NAME is a machine of `verbena machine add`.
    /// Several models are compared with the first.
    #[arg(long = "on", value_name = "TARGET", required = true)]
    targets: Vec<Target>,

    /// Distribute the ranks over N nodes [default: one node a rank]
    #[arg(long, value_name = "N", conflicts_with = "ranks_per_node", value_parser = number::between::<usize>(1..=1_000_000))]
    nodes: Option<usize>,

    #[command(flatten)]
    of_trace: recorded::Options,

    /// Print a JSON object with every rank's end
    ///
    /// For several models or traces, a list of objects.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    profiles: ProfileOptions,

    #[command(flatten)]
    anchors: AnchorOptions,
}

/// Replays the trace or schedule and prints the time it took.
///
/// # Errors
///
/// Fails if a source cannot be read or a target is not a model.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    interrupt::watch()?;
    let (anchors, profiles) = (&arguments.anchors, &arguments.profiles);
    anchors.check(&arguments.targets)?;
    let models = arguments
        .targets
        .iter()
        .map(|target| match anchors.find(profiles, target)? {
            Found::Model(model) => Ok(*model),
            _ => Err(Failure::Input(NO_MODEL.to_owned())),
        })
        .collect::<Result<Vec<ModelTarget>, Failure>>()?;
    if !arguments.json {
        print_remarks(&models);
    }
    let nodes = arguments.nodes;
    let sources = arguments.sources.iter().map(|path| Source::open(path));
    let mut sources = sources.collect::<Result<Vec<Source>, Failure>>()?;
    match sources.iter().find(|source| !source.is_trace()) {
        None => recorded::run(sources, models, nodes, arguments.of_trace, arguments.json),
        Some(_) if sources.len() == 1 => {
            arguments.of_trace.refuse()?;
            let schedule = sources.remove(0);
            schedule::run(schedule, models, nodes, arguments.json)
        }
        Some(schedule) => {
            let file = schedule.path().display();
            let text = format!(
                "{file} is not a trace; only traces (directories, or files that begin with \
                 VMPITS1) can be replayed several at once"
            );
            Err(Failure::Input(text))
        }
    }
}
