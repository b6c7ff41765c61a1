//! `verbena info [--json]`: shows the adapter, its limits, and this user's processes on it: the
//! path to each peer and the live queue pairs.

use verbena_hca_shm::registry;
use verbena_inspect::info::Adapter;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, out};

/// The arguments of `verbena info`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Prints the information.
///
/// # Errors
///
/// Fails if the registry of processes cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let adapter = Adapter::of_this_user().map_err(|source| Failure::Registry {
        path: registry::directory(),
        source,
    })?;
    match arguments.json {
        true => json(&adapter),
        false => out!("{adapter}"),
    }
    Ok(Exit::Success)
}
