//! `verbena info [--json]`: shows the adapter, its limits, and this user's processes on it: the
//! path to each peer and the live queue pairs.

use serde::Serialize;
use verbena_hca::describe;
use verbena_hca::process::watch::look_at_ports;
use verbena_hca_os::errno::Errno;
use verbena_hca_shm::registry;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::info::description::Answer;
use crate::info::device::Device;
use crate::info::table::Table;
use crate::output::{data, out};

/// The arguments of `verbena info`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Everything<'a> {
    devices: &'a [Device],
    processes: &'a [Answer],
}

/// Prints the information.
///
/// # Errors
///
/// Fails if the registry of processes cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let directory = registry::directory();
    // Otherwise files of dead processes would remain until the next program starts.
    registry::sweep(&directory);
    let answers = match describe::processes(&directory) {
        Ok(answers) => answers,
        // No registry: no process uses the adapter.
        Err(Errno::ENOENT) => Vec::new(),
        Err(source) => {
            return Err(Failure::Registry {
                path: directory,
                source,
            });
        }
    };
    let processes: Vec<_> = answers
        .into_iter()
        .map(|(pid, text)| Answer::of(pid, text))
        .collect();
    look_at_ports();
    let devices = Device::all();
    if arguments.json {
        let everything = Everything {
            devices: &devices,
            processes: &processes,
        };
        let text = serde_json::to_string_pretty(&everything)
            .expect("plain data with text keys has a JSON form");
        data!("{text}\n");
    } else {
        out!(
            "{}",
            Table {
                devices: &devices,
                registry: &directory,
                processes: &processes
            }
        );
    }
    Ok(Exit::Success)
}
