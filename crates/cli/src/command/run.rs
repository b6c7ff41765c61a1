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
use std::process;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::environment::{Environment, Link, Path};
use crate::launch::libraries::Libraries;
use crate::launch::supervise;
use crate::stats;

/// The arguments of `verbena run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The environment variables VERBENA_PATH (as --path), VERBENA_LINK (as --link), \
    VERBENA_INTERFACE (as --interface) and VERBENA_RUNTIME_DIR \
    (the directory through which processes find each other, by default /dev/shm/verbena-UID) are \
    passed on to the program."
)]
pub struct Arguments {
    /// Print what the adapter counted, by operation and by path, when the program has ended
    #[arg(long)]
    stats: bool,

    /// Use only this path to peers, instead of the best one that works
    #[arg(long, value_enum, value_name = "PATH")]
    path: Option<Path>,

    /// What the adapter's port is attached to: this host alone, or an Ethernet interface
    #[arg(long, value_enum, value_name = "LINK")]
    link: Option<Link>,

    /// The interface of `--link roce`, by its name or by one of its addresses; by default the first
    /// that is up and leads to other hosts
    #[arg(long, value_name = "INTERFACE", requires = "link")]
    interface: Option<OsString>,

    /// The program to run, with its arguments
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
    // The parser takes everything from the first word it does not know for the command.
    if name(&arguments).starts_with('-') {
        return Err(Failure::UnknownOption(name(&arguments)));
    }
    let libraries = Libraries::beside_this_executable()?;
    let environment = Environment::new(&libraries, arguments.path)
        .with_link(arguments.link, arguments.interface.as_deref());
    if arguments.stats {
        supervised(&arguments, environment)
    } else {
        replaced(&arguments, &environment)
    }
}

/// Becomes the command.
fn replaced(arguments: &Arguments, environment: &Environment) -> Result<Exit, Failure> {
    let error = command(arguments, environment).exec();
    Err(Failure::of_exec(name(arguments), error))
}

/// Runs the command as a child, then prints the counters of it and of all its descendants.
fn supervised(arguments: &Arguments, environment: Environment) -> Result<Exit, Failure> {
    let directory = stats::directory::Directory::create()?;
    let environment = environment.with_stats(directory.path());
    let status = supervise::run(command(arguments, &environment), || name(arguments))?;
    let collected = stats::collect::read(directory.path());
    // On the error stream: the command's own output stays what it was.
    eprint!("{}", stats::table::Table(&collected));
    Ok(Exit::of_child(status))
}

fn command(arguments: &Arguments, environment: &Environment) -> process::Command {
    let mut command = process::Command::new(&arguments.command[0]);
    command
        .args(&arguments.command[1..])
        .envs(environment.variables());
    command
}

fn name(arguments: &Arguments) -> String {
    arguments.command[0].to_string_lossy().into_owned()
}
