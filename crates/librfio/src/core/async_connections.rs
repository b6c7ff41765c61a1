//! The connections of asynchronous requests. A file is opened again there, by its name, for its
//! first request; calls of the classic interface use connections of their own and are not ordered
//! with them.

use std::sync::Arc;

use verbena_rfio_client::connection::MultiplexedConnection;
use verbena_rfio_client::connection::connections::{self, Connections};
use verbena_rfio_client::{Address, Error, Options};

use super::forks;

/// The locked table.
pub type Guard = connections::Guard<'static>;

static CONNECTIONS: Connections = Connections::new(Options::from_environment);

/// Locks the table, for fork(2).
pub fn lock() -> Guard {
    CONNECTIONS.lock()
}

/// Returns the connection to a server.
///
/// # Errors
/// Those of connecting.
pub fn connection(address: &Address) -> Result<Arc<MultiplexedConnection>, Error> {
    forks::prepare();
    CONNECTIONS.to(address)
}

/// Drops the connections; each is closed with the last file that uses it.
pub fn close_all() {
    CONNECTIONS.close_all();
}
