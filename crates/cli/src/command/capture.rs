//! `verbena capture [--out FILE] [OPTIONS] [-- CMD...]`: captures the adapter's traffic as RoCEv2
//! packets in a pcapng file, e.g. for Wireshark.
//!
//! With CMD, it runs CMD on the adapter like `verbena run`, captures CMD and its descendants, and
//! ends with CMD's exit code. Without CMD, it captures all processes of the runtime directory,
//! including new ones, until interrupted.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::capture::{self, Destination, Writer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::options::{self, Options};
use crate::launch::supervise;
use verbena_bench::temporary::Directory;
use verbena_hca_net::capture::collect::Collector;
use verbena_hca_os::errno::Errno;
use verbena_hca_shm::registry;

/// The arguments of `verbena capture`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write to this pcapng file; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "verbena.pcapng")]
    out: PathBuf,

    #[command(flatten)]
    options: Options,

    /// Command to run and capture, with its arguments
    ///
    /// Without a command, all processes on the adapter are captured until Ctrl-C.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Captures.
///
/// # Errors
///
/// Fails if the processes cannot connect, CMD cannot be run, or the file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let destination = Destination::of(arguments.out.clone());
    match arguments.command.is_empty() {
        true => capture_all(destination),
        false => program(&arguments, destination),
    }
}

/// Captures all processes until a signal arrives.
fn capture_all(destination: Destination) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|source| {
            Failure::System {
                doing: "catch signals",
                source,
            }
        })?;
    }
    let path = registry::directory();
    let collector = Collector::public().map_err(|source| match source {
        Errno::EBUSY => capture::Failure::Busy(path),
        source => capture::Failure::Call { path, source },
    })?;
    let writer = Writer::begin(collector, destination)?;
    eprintln!("verbena: capturing; Ctrl-C ends it");
    let summary = writer.run(&stop)?;
    eprintln!("verbena: {summary}");
    Ok(Exit::Success)
}

/// Captures a program until it ends.
fn program(arguments: &Arguments, destination: Destination) -> Result<Exit, Failure> {
    let directory = Directory::create()?;
    let path = directory.path().join("capture");
    let environment = arguments.options.environment()?.with_capture(&path);
    let command = options::command("capture", &arguments.command, &environment)?;
    let collector =
        Collector::private(&path).map_err(|source| capture::Failure::Call { path, source })?;
    let writer = Writer::begin(collector, destination)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writing = thread::spawn(move || writer.run(&stopped));
    let status = supervise::run(command, || options::name(&arguments.command));
    stop.store(true, Ordering::Relaxed);
    let summary = writing.join().expect("a capture does not panic");
    // An error of the program takes precedence over one of its capture.
    let status = status?;
    eprintln!("verbena: {}", summary?);
    Ok(Exit::of_child(status))
}
