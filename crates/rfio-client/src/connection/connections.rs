//! The connections of a program: one for each server, shared by the requests of many files.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use super::MultiplexedConnection;
use crate::address::Address;
use crate::error::Error;
use crate::fork_guard;
use crate::options::Options;

/// A connection, and the process that opened it.
type ConnectionMap = HashMap<Address, (u64, Arc<MultiplexedConnection>)>;

/// The connections, locked.
pub type Guard<'a> = MutexGuard<'a, ConnectionMap>;

/// The kept connections. The lock is only held briefly, so a program that forks needs to hold it
/// only during the fork.
#[derive(Debug)]
pub struct Connections {
    kept: LazyLock<Mutex<ConnectionMap>>,
    options: fn() -> Result<Options, Error>,
}

impl Connections {
    /// Creates an empty set; `options` returns the options of new connections.
    pub const fn new(options: fn() -> Result<Options, Error>) -> Self {
        Self {
            kept: LazyLock::new(Mutex::default),
            options,
        }
    }

    /// Locks the connections, for a lookup or during a fork.
    pub fn lock(&self) -> Guard<'_> {
        self.kept
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns the connection to a server; makes one if it is missing, broken, or a parent's.
    ///
    /// # Errors
    /// Those of the options and of connecting.
    pub fn to(&self, address: &Address) -> Result<Arc<MultiplexedConnection>, Error> {
        match self
            .get(address)
            .filter(|connection| connection.is_usable())
        {
            Some(connection) => Ok(connection),
            None => {
                let fresh = MultiplexedConnection::connect(address, &(self.options)()?)?;
                self.insert(address, &fresh);
                Ok(fresh)
            }
        }
    }

    /// Returns this process's connection to a server, if there is one; it may have ended meanwhile.
    pub fn get(&self, address: &Address) -> Option<Arc<MultiplexedConnection>> {
        let found = self.lock().get(address).cloned();
        found.and_then(|(process, connection)| {
            (process == fork_guard::generation()).then_some(connection)
        })
    }

    /// Keeps a connection that this process has made, in place of an earlier one.
    pub fn insert(&self, address: &Address, fresh: &Arc<MultiplexedConnection>) {
        let entry = (fork_guard::generation(), Arc::clone(fresh));
        let earlier = self.lock().insert(address.clone(), entry);
        drop(earlier);
    }

    /// Drops the connections; each ends with the last file that uses it.
    pub fn close_all(&self) {
        // Outside the lock, since closing a connection takes time.
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
    }
}
