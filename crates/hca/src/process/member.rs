//! A process's membership in the host's registry.

use verbena_hca_os::socket::Socket;
use verbena_hca_shm::registry::{Identity, Registry};

/// This process's membership in the host's registry.
pub struct Member {
    /// The registry.
    pub registry: Registry,
    /// This process's identity.
    pub identity: Identity,
    /// The socket that peers connect to.
    pub listener: Socket,
}
