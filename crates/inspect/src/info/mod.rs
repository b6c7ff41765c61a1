//! Information on the adapter and this user's processes on it.

mod description;
mod device;
mod table;

pub use description::{Answer, Description, Peer, QueuePair};
pub use device::{Device, Identifier, Port};

use std::path::PathBuf;

use serde::Serialize;
use verbena_hca::describe;
use verbena_hca::process::watch::look_at_ports;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_shm::registry;

/// The adapter and the processes on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Adapter {
    /// The devices.
    pub devices: Vec<Device>,
    /// The processes in the registry.
    pub processes: Vec<Answer>,
    /// The directory of the registry.
    #[serde(skip)]
    pub registry: PathBuf,
}

impl Adapter {
    /// Returns the adapter of this user.
    ///
    /// # Errors
    ///
    /// Fails if the registry of processes cannot be read.
    pub fn of_this_user() -> Result<Adapter> {
        let registry = registry::directory();
        // Otherwise files of dead processes would remain until the next program starts.
        registry::sweep(&registry);
        let answers = match describe::processes(&registry) {
            // No registry: no process uses the adapter.
            Err(Errno::ENOENT) => Vec::new(),
            answers => answers?,
        };
        let answers = answers.into_iter();
        let processes = answers.map(|(pid, text)| Answer::of(pid, text)).collect();
        look_at_ports();
        Ok(Adapter {
            devices: Device::all(),
            processes,
            registry,
        })
    }
}
