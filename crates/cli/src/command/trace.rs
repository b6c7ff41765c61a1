//! `verbena trace [OPTIONS] -- CMD...`: runs CMD on the adapter and prints its verbs calls, as
//! strace(1) prints system calls: arguments, results, keys and lengths, and a summary table at the
//! end.
//!
//! With `--system` CMD keeps the system's libibverbs, and the calls are those to its adapters.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::adapter_options::{self as options, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use verbena_bench::temporary::Directory;
use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;
use verbena_run::supervise;
use verbena_run::trace::listener::{Lines, Listener};

/// The arguments of `verbena trace`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write the calls to this file, not to standard error
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print only the table, without the calls
    #[arg(long, conflicts_with_all = ["out", "times", "only"])]
    summary: bool,

    /// Print when each call began and how long it took
    ///
    /// In seconds, from the first call.
    #[arg(long)]
    times: bool,

    /// Print only calls with this word in their name
    ///
    /// Such as `post_send`; may be repeated. The table has all calls.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,

    /// Use the system's libibverbs and its adapters
    #[arg(long, conflicts_with_all = ["path", "link", "interface", "allow", "tunnels"])]
    system: bool,

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

/// Traces the command.
///
/// # Errors
///
/// Fails if the command cannot be executed, or the calls cannot be received or printed.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let directory = Directory::for_socket()?;
    let socket = directory.path().join("calls");
    let tracer = Libraries::beside_this_executable()?.tracer()?;
    let environment = match arguments.system {
        true => Environment::of_the_system(),
        false => arguments.options.environment()?,
    };
    let environment = environment
        .with_tracer(&tracer)
        .with("VERBENA_TRACE", &socket);
    let command = options::command("trace", &arguments.command, &environment)?;
    let listener = Listener::bind(&socket, lines(&arguments)?)
        .map_err(Failure::system("receive the calls"))?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let receiving = thread::spawn(move || listener.receive(&end));
    let status = supervise::run(command, || options::name(&arguments.command));
    ended.store(true, Ordering::Release);
    let received = receiving.join().expect("receiving does not panic");
    // An error of the program takes precedence over one of its trace.
    let status = status?;
    let received = received.map_err(Failure::system("print the calls"))?;
    match received.table.is_empty() {
        true => eprintln!(
            "verbena: no verbs call was traced; programs that are linked statically or set \
             LD_PRELOAD themselves cannot be traced"
        ),
        // In one write, because other processes may write to the same stream. Errors are ignored:
        // without a reader nothing is lost.
        false => {
            let _ = io::stderr().write_all(received.table.to_string().as_bytes());
        }
    }
    if let Some(invalid) = received.invalid {
        eprintln!("verbena: {invalid}");
    }
    Ok(Exit::of_child(status))
}

fn lines(arguments: &Arguments) -> Result<Option<Lines>, Failure> {
    let to: Box<dyn Write + Send> = match (&arguments.out, arguments.summary) {
        (_, true) => return Ok(None),
        (None, false) => Box::new(io::stderr()),
        (Some(path), false) => {
            let file = File::create(path).map_err(|error| {
                Failure::Input(format!("cannot write {}: {error}", path.display()))
            })?;
            Box::new(BufWriter::new(file))
        }
    };
    Ok(Some(Lines {
        to,
        only: arguments.only.clone(),
        times: arguments.times,
        began: None,
    }))
}
