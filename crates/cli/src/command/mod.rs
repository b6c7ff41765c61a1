//! The subcommands, one file each: arguments as typed, and `run`, which does the work and gives
//! the exit code.

mod bench;
mod calibrate;
mod capture;
mod closed_loop;
mod compare;
mod completions;
mod doctor;
mod evaluate;
mod explain;
mod history;
mod import;
mod info;
mod list;
mod manual;
mod process;
mod record;
mod replay;
pub(crate) mod report;
mod reproduce;
mod run;
mod sweep;
mod trace;

use crate::exit::Exit;
use crate::failure::Failure;

/// What `verbena` can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run benchmarks by name
    Bench(bench::Arguments),
    /// Fit a timing model's values to measurements
    Calibrate(calibrate::Arguments),
    /// Write what goes through the adapter into a file, as RoCEv2 packets
    Capture(capture::Arguments),
    /// Say how far predictions can be trusted here: record programs, predict them over other ways of messages, measure that
    ClosedLoop(closed_loop::Arguments),
    /// Say what changed between two runs
    Compare(compare::Arguments),
    /// Print what a shell needs to complete this command line
    Completions(completions::Arguments),
    /// Say what this machine lets the adapter do
    Doctor(doctor::Arguments),
    /// Something that `doctor` tries in a process of its own
    #[command(hide = true, name = "__doctor")]
    DoctorProbe(doctor::ProbeArguments),
    /// Evaluate an adapter: all benchmarks, one report
    Evaluate(evaluate::Arguments),
    /// Say where the time of an operation goes on a timing model
    Explain(explain::Arguments),
    /// Say where figures changed their level over many runs
    History(history::Arguments),
    /// Make a trace for `replay` of one that another tracer has written (OTF2, Score-P)
    Import(import::Arguments),
    /// Show the adapter, its limits, and who is on it
    Info(info::Arguments),
    /// List the benchmarks
    List(list::Arguments),
    /// Write manual pages and completions below a directory; called by `make install`
    #[command(hide = true, name = "__manual")]
    Manual(manual::Arguments),
    /// One process of a benchmark; started by `bench` and `evaluate`
    #[command(hide = true, name = "__process")]
    Process,
    /// Record the calls of an MPI program
    Record(record::Arguments),
    /// Run a recorded MPI program, or a schedule of messages, on a timing model
    Replay(replay::Arguments),
    /// Draw the report of one or several runs
    Report(report::Arguments),
    /// Compute the published claims from the timing models
    Reproduce(reproduce::Arguments),
    /// One client of the file service; started by `bench rfio.*`
    #[command(hide = true, name = "__rfio-client")]
    ServiceClient,
    /// Run a program on the software adapter
    Run(run::Arguments),
    /// Compute a parameter study on the timing models
    Sweep(sweep::Arguments),
    /// Run a program and print its verbs calls
    Trace(trace::Arguments),
}

impl Command {
    /// Does what was asked.
    pub fn run(self) -> Result<Exit, Failure> {
        match self {
            Command::Bench(arguments) => bench::run(arguments),
            Command::Calibrate(arguments) => calibrate::run(arguments),
            Command::Capture(arguments) => capture::run(arguments),
            Command::ClosedLoop(arguments) => closed_loop::run(arguments),
            Command::Compare(arguments) => compare::run(arguments),
            Command::Completions(arguments) => completions::run(arguments),
            Command::Doctor(arguments) => doctor::run(arguments),
            Command::DoctorProbe(arguments) => doctor::probe(arguments),
            Command::Manual(arguments) => manual::run(arguments),
            Command::Evaluate(arguments) => evaluate::run(arguments),
            Command::History(arguments) => history::run(arguments),
            Command::Explain(arguments) => explain::run(arguments),
            Command::Import(arguments) => import::run(arguments),
            Command::Info(arguments) => info::run(arguments),
            Command::List(arguments) => list::run(arguments),
            Command::Process => process::run(),
            Command::Record(arguments) => record::run(arguments),
            Command::Replay(arguments) => replay::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Reproduce(arguments) => reproduce::run(arguments),
            Command::Run(arguments) => run::run(arguments),
            Command::Sweep(arguments) => sweep::run(arguments),
            Command::Trace(arguments) => trace::run(arguments),
            Command::ServiceClient => crate::service::client::run(),
        }
    }
}
