//! `verbena record --out TRACE [--mpicc MPICC] -- CMD...`: runs an MPI program and records its
//! calls.
//!
//! The recorder is a library at the front of LD_PRELOAD, so CMD may be `mpirun` or anything that
//! starts it. The transport of the program does not change; `verbena run -- verbena record ...`
//! also runs it on the software adapter.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::adapter_options as options;
use crate::exit::Exit;
use crate::failure::Failure;
use verbena_bench_mpi::recorder::{Compiler, Failure as Refusal, Table, new_directory};
use verbena_mpi_trace::{Trace, recorder};
use verbena_run::supervise;

/// The arguments of `verbena record`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write a file for each rank to this new or empty directory
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,

    /// Build the recorder with this compiler of the MPI library
    ///
    /// The recorder is built at its first use [default: the compiler that goes with CMD: mpicc, or
    /// mpicc.mpich for mpirun.mpich].
    #[arg(long, value_name = "MPICC")]
    mpicc: Option<OsString>,

    /// Command to record, with its launcher and arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs the command, then prints a summary of the trace.
///
/// # Errors
///
/// Fails if the recorder cannot be built, the directory cannot be used, the command cannot be run,
/// or nothing was recorded.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let words = &arguments.command;
    let mut command = options::program("record", words)?;
    let compiler = Compiler::find(arguments.mpicc.as_deref(), words)?;
    let library = compiler.recorder()?;
    let directory = new_directory(&arguments.out)?;
    command
        .env(recorder::DIRECTORY, &directory)
        .env("LD_PRELOAD", before_others(library));
    let status = supervise::run(command, || options::name(words))?;
    let nothing = fs::read_dir(&directory).is_ok_and(|mut files| files.next().is_none());
    match (Trace::open(&directory), nothing) {
        // On standard error, because standard output belongs to the command.
        (Ok(trace), _) => eprint!("{}", crate::output::harmless(&Table(&trace).to_string())),
        (Err(_), true) if status.success() => return Err(Refusal::Nothing.into()),
        (Err(_), true) => eprintln!(
            "verbena: {} ended with {status} and wrote no trace",
            options::name(words)
        ),
        (Err(error), _) => eprintln!("verbena: {error}"),
    }
    Ok(Exit::of_child(status))
}

/// Returns LD_PRELOAD with the library before any others.
fn before_others(library: PathBuf) -> OsString {
    let mut all = library.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
