//! `verbena closed-loop`: records programs over one transport, predicts them over others, and
//! measures them there.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::host;
use crate::measuring::MpiName;
use crate::number;
use crate::output::{out, outln};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use verbena_bench::target::Target;
use verbena_bench_mpi::library::MpiKind;
use verbena_bench_mpi::validation::programs::Program;
use verbena_bench_mpi::validation::{self, Plan, Validation};

/// Arguments of `verbena closed-loop`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Applications (app.NAME), or MPI programs as files
    ///
    /// `verbena list` names the applications.
    #[arg(value_name = "NAME|PROGRAM", required_unless_present = "command")]
    names: Vec<String>,

    /// Record over this transport
    #[arg(long, value_name = "TARGET", default_value = "shm")]
    record_on: Target,

    /// Predict and measure over these: shm, software, tcp
    #[arg(long = "on", value_name = "TARGET", default_values = ["shm", "software", "tcp"])]
    targets: Vec<Target>,

    /// Use these numbers of processes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["2", "4"],
        value_parser = number::between::<u16>(1..=1024))]
    processes: Vec<u16>,

    /// Time N runs of each and take the median
    #[arg(long, value_name = "N", default_value = "3",
        value_parser = number::between::<u16>(1..=100))]
    launches: u16,

    /// Use this MPI library [default: that of `mpicc`]
    #[arg(long, value_enum, value_name = "LIBRARY")]
    mpi: Option<MpiName>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Write the JSON object to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Validate this program too, with its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the validation and prints or writes its results.
///
/// # Errors
///
/// Fails if a program is not found, the validation cannot run, or the file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let kind = arguments.mpi.map(MpiKind::from);
    let mut programs = Vec::new();
    for name in &arguments.names {
        programs.push(Program::named(name, kind)?);
    }
    if !arguments.command.is_empty() {
        programs.push(Program::own(&arguments.command)?);
    }
    let told = validation::run(&Plan {
        programs,
        record_on: arguments.record_on,
        targets: arguments.targets,
        processes: arguments.processes.into_iter().map(usize::from).collect(),
        launches: usize::from(arguments.launches),
        mpi: host::mpi(kind),
    })?;
    match arguments.json {
        true => outln!(
            "{}",
            serde_json::to_string_pretty(&told).expect("numbers are plain data")
        ),
        false => out!("{told}"),
    }
    if let Some(file) = &arguments.out {
        write(file, &told)?;
    }
    Ok(match told.failures.is_empty() {
        true => Exit::Success,
        false => Exit::NegativeResult,
    })
}

/// Writes the results as JSON.
fn write(file: &Path, told: &Validation) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(told).expect("numbers are plain data");
    verbena_report::file::replace(file, &(text + "\n")).map_err(Failure::system("write the file"))
}
