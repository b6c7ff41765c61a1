//! The connections that requests under way share. A file that requests are begun on is opened once more there, by its name;
//! calls of the classic interface have connections of their own and are in no order with them.

use std::sync::Arc;

use verbena_rfio::client::exchange::Exchange;
use verbena_rfio::client::exchange::connections::{self, Connections};
use verbena_rfio::client::{Address, Error, Options};

use super::forks;

/// The table, locked.
pub type Guard = connections::Guard<'static>;

static CONNECTIONS: Connections = Connections::new(Options::from_environment);

/// Locks it, for the time of a fork.
pub fn hold() -> Guard {
    CONNECTIONS.hold()
}

/// The connection to a server.
pub fn exchange(address: &Address) -> Result<Arc<Exchange>, Error> {
    forks::prepare();
    CONNECTIONS.to(address)
}

/// Lets the connections go; each ends with the last file that uses it.
pub fn close_all() {
    CONNECTIONS.close_all();
}
