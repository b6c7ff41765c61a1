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

use crate::adapter_options::{self as options, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use verbena_bench::temporary::Directory;
use verbena_inspect::capture::{Destination, Writer};
use verbena_run::supervise::{self, SIGHUP, SIGINT, SIGTERM};

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
    let stop = supervise::stop_at(&[SIGINT, SIGTERM, SIGHUP])?;
    let writer = Writer::of_all(destination)?;
    eprintln!("verbena: capturing; Ctrl-C ends it");
    let summary = writer.run(&stop)?;
    eprintln!("verbena: {summary}");
    Ok(Exit::Success)
}

/// Captures a program until it ends.
fn program(arguments: &Arguments, destination: Destination) -> Result<Exit, Failure> {
    let directory = Directory::for_socket()?;
    let path = directory.path().join("capture");
    let environment = arguments.options.environment()?;
    let environment = environment.with("VERBENA_CAPTURE", &path);
    let command = options::command("capture", &arguments.command, &environment)?;
    let writer = Writer::of_program(&path, destination)?;
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
