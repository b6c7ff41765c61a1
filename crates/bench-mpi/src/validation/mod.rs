//! Validates predictions on this machine: records programs over one transport, predicts their run
//! time over others, and measures it there.
//!
//! A prediction uses only measurements of the transport by `mpi.*` and a probe (`fit`), the
//! scheduler's time slices on this machine, and the program's trace. [`programs`] defines the
//! programs, and `run` runs them.

mod fit;
mod probe;
pub mod programs;
mod run;
mod table;

use crate::ready::Ready;
use crate::transport::Transport;
use crate::{Failure, Mpi};
pub use fit::Fitted;
use programs::Program;
use run::Runner;
use serde::Serialize;
use verbena_bench::Failure as BenchFailure;
use verbena_bench::progress::Progress;
use verbena_bench::target::Target;
use verbena_bench::temporary::Directory;
use verbena_measure::{processors, turns};
use verbena_model::kernel::Time;
use verbena_model::profile::{self, Library, Overrides, Profile, ProfileKind};
use verbena_mpi_trace::{Summary, Trace};
use verbena_replay::host::{self, Machine};
use verbena_replay::recorded::programs as programs_of;

/// The programs and transports to validate predictions with.
pub struct Plan {
    /// The programs.
    pub programs: Vec<Program>,
    /// Transport to record over.
    pub record_on: Target,
    /// Transports to predict and measure over.
    pub targets: Vec<Target>,
    /// Numbers of processes.
    pub processes: Vec<usize>,
    /// Runs of each program; the median counts.
    pub launches: usize,
    /// The MPI library.
    pub mpi: Mpi,
}

/// Predictions beside their measurements.
#[derive(Debug, Serialize)]
pub struct Validation {
    /// Version of the MPI library.
    pub library: String,
    /// Number of processors.
    pub processors: usize,
    /// Transport that programs were recorded over.
    pub recorded_on: String,
    /// Measured costs of each transport.
    #[serde(rename = "ways")]
    pub transports: Vec<Fitted>,
    /// Time slice, polling and yield times in nanoseconds; `None` if each process has its own
    /// processor.
    pub turns: Option<[f64; 3]>,
    /// Each prediction beside its measurement.
    pub rows: Vec<Row>,
    /// Failed launches, with the reason.
    pub failures: Vec<String>,
    /// Mean absolute error in per cent.
    pub mean_error: f64,
    /// Largest absolute error in per cent.
    pub worst_error: f64,
}

/// A prediction and its measurement; times in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the program.
    pub program: String,
    /// Number of processes.
    pub processes: usize,
    /// The transport.
    pub on: String,
    /// Time from `MPI_Init` to `MPI_Finalize`.
    pub predicted: f64,
    /// Median over the launches.
    pub measured: f64,
    /// Each launch.
    pub launches: Vec<f64>,
    /// Relative error of the prediction, signed, in per cent.
    pub error: f64,
    /// Computing time, averaged over the processes.
    pub computing: f64,
    /// Number of messages.
    pub messages: u64,
}

/// Records, predicts and measures all programs.
///
/// # Errors
///
/// Fails if a transport is not available, a cost cannot be measured, or a program cannot be
/// recorded or predicted. Failed launches are part of the result.
pub fn run(plan: &Plan) -> Result<Validation, Failure> {
    let collectives = collectives()?;
    let (record_on, _) = ready(plan, &plan.record_on)?;
    let cores = processors::count();
    let crowded = plan.processes.iter().any(|processes| *processes > cores);
    let seen = match crowded {
        true => Some(turns::watched().ok_or_else(|| {
            let text = "cannot measure time slices: this process may not bind itself to one \
                        processor";
            BenchFailure::Suite(text.to_owned())
        })?),
        false => None,
    };
    let machine = seen.map_or_else(|| alone(cores), |turns| shared(cores, turns));
    let mut transports = Vec::new();
    for target in &plan.targets {
        let (ready, name) = ready(plan, target)?;
        let fitted = Fitted::measured(&name, target, &ready, &plan.mpi, &plan.processes, &machine)?;
        transports.push((ready, fitted));
    }
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let mut progress = progress(plan, &transports);
    for program in &plan.programs {
        for &processes in &plan.processes {
            let runner = Runner { program, processes };
            let directory = Directory::create()?;
            progress.begin(&step(program, processes, RECORDED));
            let trace = runner.record(&record_on, directory.path())?;
            progress.end();
            for (ready, fitted) in &transports {
                progress.begin(&step(program, processes, &fitted.transport));
                let predicted = predict(&trace, &collectives, fitted, program)?;
                let (launches, failed): (Vec<_>, Vec<_>) = (0..plan.launches)
                    .map(|_| runner.time(ready))
                    .partition(Result::is_ok);
                progress.end();
                let words = failed.into_iter().filter_map(Result::err);
                failures
                    .extend(words.map(|failure| format!("over {}: {failure}", fitted.transport)));
                let launches: Vec<f64> = launches.into_iter().flatten().collect();
                if !launches.is_empty() {
                    rows.push(row(program, &trace, &fitted.transport, predicted, launches));
                }
            }
        }
    }
    let errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
    Ok(Validation {
        library: record_on.described().remove("MPI").unwrap_or_default(),
        processors: cores,
        recorded_on: record_on.transport().name().to_owned(),
        transports: transports.into_iter().map(|(_, fitted)| fitted).collect(),
        turns: seen.map(|turns| [turns.turn, turns.look, turns.give_way]),
        mean_error: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
        worst_error: errors.iter().copied().fold(0.0, f64::max),
        rows,
        failures,
    })
}

const RECORDED: &str = "recorded";

fn step(program: &Program, processes: usize, on: &str) -> String {
    format!("{}, {processes} processes, {on}", program.name())
}

fn progress(plan: &Plan, transports: &[(Ready, Fitted)]) -> Progress {
    let on: Vec<&str> = transports
        .iter()
        .map(|(_, fitted)| fitted.transport.as_str())
        .collect();
    let runs = plan.programs.iter().flat_map(|program| {
        let processes = plan.processes.iter();
        processes.map(move |processes| (program, *processes))
    });
    let steps: Vec<String> = runs
        .flat_map(|(program, processes)| {
            let all = std::iter::once(RECORDED).chain(on.iter().copied());
            all.map(move |on| step(program, processes, on))
        })
        .collect();
    Progress::new(steps.iter().map(String::as_str), 1, "")
}

fn ready(plan: &Plan, target: &Target) -> Result<(Ready, String), Failure> {
    let transport = match target {
        Target::Software => Transport::Software,
        Target::Tcp => Transport::Tcp,
        Target::SharedMemory => Transport::SharedMemory,
        _ => {
            let text = "closed-loop runs on this machine only: use --on software, --on tcp or \
                        --on shm";
            return Err(BenchFailure::Input(text.to_owned()).into());
        }
    };
    Ok((
        Ready::of(plan.mpi.kind, transport, plan.mpi.host)?,
        transport.name().to_owned(),
    ))
}

/// Returns the algorithms of collective operations. Those of Open MPI and MPICH belong to the same
/// families, with different size limits.
fn collectives() -> Result<profile::Mpi, Failure> {
    let fault = |error: &dyn std::fmt::Display| BenchFailure::Suite(error.to_string());
    let library = Library::shipped(&Overrides::none()).map_err(|error| fault(&error))?;
    match library.profile(ProfileKind::Mpi, "mvapich2") {
        Some(Profile::Mpi(mpi)) => Ok(mpi.clone()),
        _ => Err(fault(&"the profile mvapich2 is missing").into()),
    }
}

/// With a processor for each process there are no time slices.
fn alone(processors: usize) -> Machine {
    Machine {
        processors,
        turn: Time::ZERO,
        look: Time::ZERO,
        give_way: Time::ZERO,
    }
}

fn shared(processors: usize, turns: turns::Turns) -> Machine {
    Machine {
        processors,
        turn: Time::from_nanos(turns.turn),
        look: Time::from_nanos(turns.look),
        give_way: Time::from_nanos(turns.give_way),
    }
}

fn predict(
    trace: &Trace,
    collectives: &profile::Mpi,
    fitted: &Fitted,
    program: &Program,
) -> Result<f64, Failure> {
    let unlike =
        |error: &dyn std::fmt::Display| BenchFailure::Suite(format!("{}: {error}", program.name()));
    let steps = programs_of(trace, collectives).map_err(|error| unlike(&error))?;
    let (machine, costs) = &fitted.hosts[&trace.ranks.len()];
    let outcome = host::run(machine, costs, steps, 1.0).map_err(|endless| unlike(&endless))?;
    Ok(outcome.last().nanos())
}

fn row(program: &Program, trace: &Trace, on: &str, predicted: f64, launches: Vec<f64>) -> Row {
    let summary = Summary::of(trace);
    let mut sorted = launches.clone();
    sorted.sort_by(f64::total_cmp);
    let measured = sorted[sorted.len() / 2];
    Row {
        program: program.name(),
        processes: trace.ranks.len(),
        on: on.to_owned(),
        predicted,
        measured,
        launches,
        error: (predicted / measured - 1.0) * 100.0,
        computing: summary.computing as f64 / trace.ranks.len() as f64,
        messages: summary.all.messages,
    }
}
