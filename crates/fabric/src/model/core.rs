//! The core that a process runs on.

use super::machine::{Machine, Processor};
use crate::error::Error;
use std::rc::Rc;

/// Payload of a full packet of the software adapter, as in its library.
const SOFTWARE_MTU: u64 = 4096;

/// The core, rank and machine of a process.
#[derive(Clone)]
pub(super) struct Core {
    pub process: Processor,
    pub rank: usize,
    pub machine: Rc<Machine>,
}

impl Core {
    /// Creates an error for an unsupported feature.
    pub fn lacks(&self, what: &str) -> Error {
        Error::unsupported(what, format!("the model {}", self.machine.name()))
    }

    /// Returns the payload of a full packet.
    pub fn mtu(&self) -> u64 {
        let system = self.machine.system();
        system.map_or(SOFTWARE_MTU, |system| system.link.mtu.0)
    }
}
