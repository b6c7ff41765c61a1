//! `verbena run [--stats] [--stats-out FILE] [--path PATH] [--link LINK] [--interface INTERFACE] --
//! CMD...`: runs CMD on the software adapter.
//!
//! CMD finds Verbena's `libibverbs.so.1` through LD_LIBRARY_PATH, and the device node that verbs
//! programs expect through a shim in LD_PRELOAD; both come first in their variables. Both are
//! inherited, so CMD may be a shell, `mpirun` or anything else that starts programs.
//!
//! Without `--stats` this process becomes CMD (`execve`): signals, terminal and exit status are
//! CMD's own, and no process of Verbena remains. With `--stats`, `--stats-out`, `--as` or faults it
//! stays as CMD's parent, forwards signals, and reports the counters, the lateness or the faults
//! when CMD has ended.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::adapter_options::{self as options, Options};
use crate::emulation_options::EmulationOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fault_options::FaultOptions;
use verbena_bench::counters::{self, Collected};
use verbena_bench::temporary::Directory;
use verbena_report::file::replace;
use verbena_run::environment::Environment;
use verbena_run::supervise;

/// The arguments of `verbena run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the adapter's counters when the command has ended
    ///
    /// By operation and by path, on standard error.
    #[arg(long)]
    stats: bool,

    /// Write the adapter's counters to this file when the command ends
    ///
    /// As JSON: `totals` by name, `processes` with the counters of each, and `broken`, unreadable
    /// counters.
    #[arg(long, value_name = "FILE")]
    stats_out: Option<PathBuf>,

    #[command(flatten)]
    faults: FaultOptions,

    #[command(flatten)]
    emulation: EmulationOptions,

    #[command(flatten)]
    options: Options,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns whether this process stays as the command's parent.
    pub fn is_supervised(&self) -> bool {
        self.stats
            || self.stats_out.is_some()
            || self.faults.are_given()
            || self.emulation.are_given()
            || self.emulation.have_rules()
    }
}

/// Runs the command. Returns only if the command could not be executed or, with `--stats` or
/// `--stats-out`, after its end.
///
/// # Errors
///
/// Fails if the command cannot be executed or the counters cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let environment = arguments.options.environment()?;
    if arguments.is_supervised() {
        supervised(&arguments, environment)
    } else {
        replaced(&arguments.command, &environment)
    }
}

/// Replaces this process with the command.
fn replaced(words: &[OsString], environment: &Environment) -> Result<Exit, Failure> {
    let error = options::command("run", words, environment)?.exec();
    Err(supervise::Failure::of_exec(options::name(words), error).into())
}

/// Runs the command as a child, then reports the counters of the command and its descendants, and
/// which faults have fired.
fn supervised(arguments: &Arguments, environment: Environment) -> Result<Exit, Failure> {
    let words = &arguments.command;
    let directory = Directory::create()?;
    let properties = arguments.emulation.rules()?;
    let faults = arguments.faults.begin(&directory, properties)?;
    let emulating = arguments.emulation.begin(&directory)?;
    let statistics = directory.path().join("statistics");
    let mut environment = environment;
    let is_counted = arguments.stats || arguments.stats_out.is_some();
    if is_counted {
        fs::create_dir(&statistics).map_err(Failure::system("keep statistics"))?;
        environment = environment.with("VERBENA_STATS_DIR", &statistics);
    }
    if let Some(faults) = &faults {
        environment = faults.environment(environment)?;
    }
    if let Some(emulating) = &emulating {
        environment = emulating.environment(environment);
    }
    let command = options::command("run", words, &environment)?;
    let status = supervise::run(command, || options::name(words))?;
    if is_counted {
        count(arguments, &counters::read(&statistics))?;
    }
    if let Some(Err(error)) = emulating.map(|emulating| emulating.end()) {
        // The command's status, and the report of faults, count more.
        eprintln!("verbena: {error}");
    }
    let exit = Exit::of_child(status);
    match faults {
        Some(faults) => faults.end(exit),
        None => Ok(exit),
    }
}

/// Reports the counters.
fn count(arguments: &Arguments, collected: &Collected) -> Result<(), Failure> {
    if arguments.stats {
        // On standard error, because standard output belongs to the command.
        eprint!("{collected}");
    }
    match &arguments.stats_out {
        Some(file) => write(file, collected),
        None => Ok(()),
    }
}

/// Writes the counters as JSON.
fn write(file: &Path, collected: &Collected) -> Result<(), Failure> {
    let written = serde_json::json!({
        "totals": collected.totals(),
        "processes": collected.processes,
        "broken": collected.broken,
    });
    replace(file, &format!("{written}\n")).map_err(|source| {
        let file = file.display();
        Failure::Input(format!("cannot write {file}: {source}"))
    })
}
