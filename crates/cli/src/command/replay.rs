//! `verbena replay`: replays a recorded MPI program, or a message schedule in GOAL's text format or
//! as an algorithm of MSCCL, on a timing model.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::profiles::{AnchorOptions, FabricOptions, ProfileOptions, find_in, print_remarks};
use crate::replay::source::Source;
use crate::replay::{recorded, schedule};
use verbena_bench::model_target::ModelTarget;
use verbena_bench::target::{Found, Target};
use verbena_measure::unit;

const NO_MODEL: &str = "traces and schedules run on models only: use --on model:PROFILE; \
                        `verbena list` names the profiles";

/// What, on what.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Traces of `verbena record`, or schedules
    ///
    /// A trace is a directory, or a file with all ranks. Several are replayed in order, e.g. of the
    /// same program on more ranks. A schedule is a file in GOAL's format, e.g. from LogGOPSim's
    /// schedgen, or an algorithm of MSCCL (XML), with --bytes.
    #[arg(value_name = "TRACE|FILE", required = true)]
    sources: Vec<PathBuf>,

    /// Choose the model: model:PROFILE[:message]; may be repeated
    ///
    /// machine:NAME is a machine of `verbena machine add`.
    /// Several models are compared with the first.
    #[arg(long = "on", value_name = "TARGET", required = true)]
    targets: Vec<Target>,

    /// Distribute the ranks over N nodes [default: one node a rank]
    ///
    /// Several numbers, e.g. 16,64,256, are replayed one after the other.
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "ranks_per_node", value_parser = number::between::<usize>(1..=1_000_000))]
    nodes: Vec<usize>,

    /// Set the size of the buffer of an MSCCL algorithm, e.g. 4M
    #[arg(long, value_name = "SIZE", value_parser = unit::read_size)]
    bytes: Option<u64>,

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
    fabric: FabricOptions,

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
    arguments.anchors.check(&arguments.targets)?;
    let profiles = arguments.anchors.added_to(arguments.profiles.profiles());
    let profiles = arguments.fabric.added_to(profiles)?;
    let models = arguments
        .targets
        .iter()
        .map(|target| match find_in(target, &profiles)? {
            Found::Model(model) => Ok(*model),
            _ => Err(Failure::Input(NO_MODEL.to_owned())),
        })
        .collect::<Result<Vec<ModelTarget>, Failure>>()?;
    if !arguments.json {
        print_remarks(&models);
    }
    let (nodes, bytes) = (arguments.nodes, arguments.bytes);
    let sources = arguments.sources.iter().map(|path| Ok(Source::open(path)?));
    let mut sources = sources.collect::<Result<Vec<Source>, Failure>>()?;
    let exit = match sources.iter().find(|source| !source.is_trace()) {
        None if bytes.is_some() => return Err(Failure::Input(schedule::NO_BUFFER.to_owned())),
        None => {
            let options = arguments.of_trace;
            recorded::run(sources, models, &nodes, options, profiles, arguments.json)
        }
        Some(_) if sources.len() == 1 => {
            arguments.of_trace.refuse()?;
            let nodes = match nodes[..] {
                [] => None,
                [nodes] => Some(nodes),
                _ => {
                    let text = "a schedule runs on one number of nodes: give --nodes N";
                    return Err(Failure::Input(text.to_owned()));
                }
            };
            let schedule = sources.remove(0);
            schedule::run(schedule, models, (nodes, bytes), profiles, arguments.json)
        }
        Some(schedule) => {
            let file = schedule.path().display();
            let text = format!(
                "{file} is not a trace; only traces (directories, or files that begin with \
                 VMPITS1) can be replayed several at once"
            );
            return Err(Failure::Input(text));
        }
    }?;
    if !arguments.json {
        arguments.profiles.report_basis(&arguments.targets)?;
    }
    Ok(exit)
}
