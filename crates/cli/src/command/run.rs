//! `verbena run [--stats] [--path PATH] [--link LINK] [--interface INTERFACE] -- CMD...`: runs CMD on the software
//! adapter.
//!
//! CMD finds Verbena's `libibverbs.so.1` because its directory stands first in LD_LIBRARY_PATH,
//! and the device node that verbs programs look for because the shim stands first in LD_PRELOAD.
//! Both are inherited, so CMD may be a shell, `mpirun` or anything else that starts programs.
//!
//! Without `--stats` this process becomes CMD (`execve`): signals, terminal and exit status are
//! CMD's own, and nothing of Verbena stays behind. With `--stats` it stays as CMD's parent,
//! passes signals on, and prints what the adapter counted when CMD has ended.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::environment::Environment;
use crate::launch::options::{self, Options};
use crate::launch::supervise;
use crate::stats;

/// The arguments of `verbena run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the adapter's counters when the command has ended
    ///
    /// By operation and by path, on standard error.
    #[arg(long)]
    stats: bool,

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

/// Runs the command; returns only when it could not become it, or with `--stats` at its end.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let environment = arguments.options.environment()?;
    if arguments.stats {
        supervised(&arguments.command, environment)
    } else {
        replaced(&arguments.command, &environment)
    }
}

/// Becomes the command.
fn replaced(words: &[OsString], environment: &Environment) -> Result<Exit, Failure> {
    let error = options::command("run", words, environment)?.exec();
    Err(Failure::of_exec(options::name(words), error))
}

/// Runs the command as a child, then prints the counters of it and of all its descendants.
fn supervised(words: &[OsString], environment: Environment) -> Result<Exit, Failure> {
    let directory = stats::directory::Directory::create()?;
    let environment = environment.with_stats(directory.path());
    let command = options::command("run", words, &environment)?;
    let status = supervise::run(command, || options::name(words))?;
    let collected = stats::collect::read(directory.path());
    // On the error stream: the command's own output stays what it was.
    eprint!("{}", stats::table::Table(&collected));
    Ok(Exit::of_child(status))
}
