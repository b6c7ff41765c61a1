//! `verbena replay`: replays a recorded MPI program, or a message schedule in GOAL's text format or
//! as an algorithm of MSCCL, on a timing model.

mod recorded;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::output::{json, out};
use crate::profiles::{ModelOptions, print_remarks};
use crate::terminal;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_bench::progress_line::Bar;
use verbena_bench::target::Target;
use verbena_bench::time_budget;
use verbena_bench_mpi::replays::differences;
use verbena_bench_mpi::replays::recorded::assumptions;
use verbena_bench_mpi::replays::schedule::{self, Replayed};
use verbena_measure::unit;
use verbena_model::threads::{limit_threads, processors};
use verbena_replay::source::Source;
use verbena_report::file::replace;

const NO_MODEL: &str = "traces and schedules run on models only: use --on model:PROFILE; \
                        `verbena list` names the profiles";

/// Arguments of `verbena replay`.
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
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "ranks_per_node",
        value_parser = number::between::<usize>(1..=1_000_000))]
    nodes: Vec<usize>,

    /// Set the size of the buffer of an MSCCL algorithm, e.g. 4M
    #[arg(long, value_name = "SIZE", value_parser = unit::read_size)]
    bytes: Option<u64>,

    #[command(flatten)]
    of_trace: recorded::Options,

    /// End after TIME (30s, 10m, 1.5h) with the replays that are complete
    ///
    /// The others are named, and the exit code is 124.
    #[arg(long, value_name = "TIME", value_parser = time_budget::parse)]
    budget: Option<Duration>,

    /// Compute on N threads [default: one per processor]
    ///
    /// Results do not depend on N.
    #[arg(long, value_name = "N", value_parser = number::between::<usize>(1..=1024))]
    threads: Option<usize>,

    /// Print a JSON object with every rank's end
    ///
    /// For several models or traces, a list of objects. If some were not computed, an object with
    /// `replays`, `not_computed` and `reason`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    models: ModelOptions,
}

/// Replays the trace or schedule and prints the time it took.
///
/// # Errors
///
/// Fails if a source cannot be read or a target is not a model.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    interrupt::watch()?;
    time_budget::begin(arguments.budget);
    limit_threads(arguments.threads.unwrap_or_else(processors));
    let (profiles, models) = arguments.models.find(&arguments.targets, NO_MODEL)?;
    if !arguments.json {
        print_remarks(&models);
    }
    let sources = arguments.sources.iter().map(|path| Ok(Source::open(path)?));
    let inputs = Inputs {
        sources: sources.collect::<Result<_, Failure>>()?,
        models,
        nodes: arguments.nodes,
        profiles,
    };
    let (bytes, json) = (arguments.bytes, arguments.json);
    let mut schedules = inputs.sources.iter().filter(|source| !source.is_trace());
    let exit = match schedules.next() {
        None if bytes.is_some() => return Err(Failure::Input(schedule::NO_BUFFER.to_owned())),
        None => recorded::run(inputs, arguments.of_trace, json),
        Some(_) if inputs.sources.len() == 1 => {
            arguments.of_trace.refuse()?;
            let out = arguments.of_trace.out();
            run_schedule(inputs, bytes, (json, out.as_deref()))
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
    if !json {
        arguments.models.profiles.report_basis(&arguments.targets)?;
    }
    Ok(exit)
}

/// The traces or the schedule, the models, and the numbers of nodes; without any, one node a rank.
struct Inputs {
    sources: Vec<Source>,
    models: Vec<ModelTarget>,
    nodes: Vec<usize>,
    profiles: Profiles,
}

impl Inputs {
    /// Returns the number of replays of traces.
    fn replays(&self) -> usize {
        self.models.len() * self.sources.len() * self.nodes.len().max(1)
    }
}

/// Runs the schedule on each model and prints the times.
fn run_schedule(
    inputs: Inputs,
    bytes: Option<u64>,
    (json, out): (bool, Option<&Path>),
) -> Result<Exit, Failure> {
    let nodes = match inputs.nodes[..] {
        [] => None,
        [nodes] => Some(nodes),
        _ => {
            let text = "a schedule runs on one number of nodes: give --nodes N";
            return Err(Failure::Input(text.to_owned()));
        }
    };
    let count = inputs.models.len();
    let differences = differences(&inputs.models)?;
    let assumptions = match out {
        Some(_) => assumptions(&inputs.models, &inputs.profiles)?,
        None => Vec::new(),
    };
    let file = inputs.sources[0].path().to_owned();
    let names = inputs.models.iter().map(|model| model.name().to_owned());
    let names: Vec<String> = names.collect();
    let bar = Bar::of_models(count, "replays");
    let mut replayed = collected(move |keep| {
        for source in inputs.sources {
            let file = source.path().to_owned();
            let schedule = schedule::read(&file, &source.schedule()?, bytes)?;
            for model in &inputs.models {
                let profiles = &inputs.profiles;
                keep(schedule::replay_on(
                    model, &file, &schedule, nodes, profiles,
                )?);
                bar.step();
            }
        }
        Ok(())
    })?;
    schedule::judge(&mut replayed);
    let file_name = file.display();
    let missing = names.iter().skip(replayed.len());
    let missing = missing.map(|model| format!("{file_name} on {model}"));
    let missing = Missing::new(missing.collect());
    let notes = [differences, missing.notes()].concat();
    match json {
        true => {
            let told: Vec<_> = replayed.iter().map(Replayed::told).collect();
            print_json(&told, &missing);
        }
        false => {
            let in_blocks = terminal::shows_blocks();
            out!("{}", schedule::text(&replayed, &notes, in_blocks));
        }
    }
    if let Some(out) = out.filter(|_| !replayed.is_empty()) {
        let page = schedule::page(&command(), &file, &replayed, &assumptions, &notes);
        write_page(out, &page)?;
    }
    Ok(missing.concluded(replayed.len()))
}

/// Runs a computation that passes its results on one by one, and returns them: all, or those that
/// were complete when the user interrupted or the budget was over.
fn collected<T: Send + 'static>(
    compute: impl FnOnce(&dyn Fn(T)) -> Result<(), Failure> + Send + 'static,
) -> Result<Vec<T>, Failure> {
    let known = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&known);
    let ran = interrupt::unless_interrupted(move || {
        compute(&|result| {
            let mut kept = kept.lock().expect("nothing panics under this lock");
            kept.push(result);
        })
    });
    ran.transpose()?;
    let mut known = known.lock().expect("nothing panics under this lock");
    Ok(std::mem::take(&mut *known))
}

/// Returns the command line.
fn command() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

fn write_page(file: &Path, page: &str) -> Result<(), Failure> {
    replace(file, page).map_err(Failure::system("write the page"))
}

/// The replays that were not computed, because the user interrupted or the budget was over.
struct Missing {
    replays: Vec<String>,
}

impl Missing {
    fn new(replays: Vec<String>) -> Missing {
        Missing { replays }
    }

    /// Returns a sentence about each, for texts and pages.
    fn notes(&self) -> Vec<String> {
        let replays = self.replays.iter();
        let reason = interrupt::word();
        replays
            .map(|replay| format!("not computed ({reason}): {replay}"))
            .collect()
    }

    /// Reports the missing replays beside `done` complete ones, and returns the exit code.
    fn concluded(&self, done: usize) -> Exit {
        if self.replays.is_empty() {
            return Exit::Success;
        }
        let all = done + self.replays.len();
        let missing = self.replays.join(", ");
        interrupt::tell(&format!(
            "{done} of {all} replays are complete; not computed: {missing}"
        ));
        interrupt::exit()
    }
}

/// Results of an incomplete command.
#[derive(Serialize)]
struct Partial<'a, T> {
    replays: &'a [T],
    not_computed: &'a [String],
    reason: &'static str,
}

/// Prints one object, or a list of several; an object with both lists if some are missing.
fn print_json<T: Serialize>(told: &[T], missing: &Missing) {
    match told {
        _ if !missing.replays.is_empty() => json(&Partial {
            replays: told,
            not_computed: &missing.replays,
            reason: interrupt::word(),
        }),
        [one] => json(one),
        several => json(&several),
    }
}
