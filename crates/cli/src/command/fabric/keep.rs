//! The process that keeps a fabric, started by `verbena fabric up`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use verbena_subnet::{Manager, Subnet};
use verbena_umad::{Files, Server};

use super::attach;
use super::up::SubnetManager;
use crate::exit::Exit;
use crate::failure::Failure;

/// The line that says that the fabric is ready.
pub const READY: &str = "ready";

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory of the fabric, with its topology
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The subnet manager
    #[arg(value_name = "SM", value_enum)]
    manager: SubnetManager,
}

/// Keeps the fabric until its last user has ended; then removes the directory.
///
/// # Errors
///
/// Fails if the topology or the socket cannot be used.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (_, mut fabric) = attach::stored(&arguments.directory)?;
    let place = Manager::place(&fabric).filter(|_| arguments.manager == SubnetManager::Builtin);
    let manager = match place {
        Some(place) => {
            let partitions = attach::stored_partitions(&arguments.directory)?;
            Some(Manager::start(place, &mut fabric, partitions))
        }
        None => None,
    };
    let files = Files::new(Subnet::new(fabric, manager));
    // The memory in which the topology was read.
    verbena_measure::memory::release();
    let server = Server::new(&arguments.directory, files);
    let server = server.map_err(|error| Failure::Input(error.to_string()))?;
    let mut output = std::io::stdout();
    let told = writeln!(output, "{READY}").and_then(|()| output.flush());
    told.map_err(Failure::system("report that the fabric is ready"))?;
    let served = server.serve();
    // No program uses the directory any more.
    let _ = fs::remove_dir_all(&arguments.directory);
    served.map_err(|error| Failure::Input(error.to_string()))?;
    Ok(Exit::Success)
}
