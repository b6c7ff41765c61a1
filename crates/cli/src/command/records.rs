//! `verbena __records RUN`: prints a run, or another tool's output, as the lines of a results file.
//! The Python package uses it to read the output of other tools.

use std::path::PathBuf;

use crate::command::report::{Foreign, read_foreign};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::data;

/// Arguments of `verbena __records`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The run directory, the results file, or the output of another tool
    run: PathBuf,

    #[command(flatten)]
    foreign: Foreign,
}

/// Prints the records.
///
/// # Errors
///
/// Fails if the run cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    for line in read_foreign(&arguments.run, &arguments.foreign)?.into_lines() {
        let text = serde_json::to_string(&line).expect("records are plain data");
        data!("{text}\n");
    }
    Ok(Exit::Success)
}
