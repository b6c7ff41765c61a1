//! `verbena doctor [--json]`: checks which features of the adapter work on this machine, and
//! advises on those that do not.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, out};
use verbena_inspect::doctor::{self, Probe};

/// The arguments of `verbena doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit code is 0 if programs run on the software adapter here, else 3.")]
pub struct Arguments {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

/// A check that runs in a separate process.
#[derive(Debug, clap::Args)]
pub struct ProbeArguments {
    /// What
    probe: Probe,
}

/// Prints the findings.
///
/// # Errors
///
/// Fails if the checks cannot run.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let examination = doctor::examine()?;
    match arguments.json {
        true => json(&examination),
        false => out!("{examination}"),
    }
    Ok(match examination.runs {
        true => Exit::Success,
        false => Exit::Environment,
    })
}

/// Runs one probe.
pub fn probe(arguments: ProbeArguments) -> Result<Exit, Failure> {
    Ok(match arguments.probe.run()? {
        true => Exit::Success,
        false => Exit::Environment,
    })
}
