//! The connections of a program: one for each server, shared by the requests of many files.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use super::Exchange;
use crate::address::Address;
use crate::error::Error;
use crate::lineage;
use crate::options::Options;

/// A connection, and the process that opened it.
type Kept = HashMap<Address, (u64, Arc<Exchange>)>;

/// The connections, locked.
pub type Guard<'a> = MutexGuard<'a, Kept>;

/// The kept connections. The lock is only held briefly, so a program that forks needs to hold it
/// only during the fork.
#[derive(Debug)]
pub struct Connections {
    kept: LazyLock<Mutex<Kept>>,
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
    pub fn hold(&self) -> Guard<'_> {
        self.kept
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns the connection to a server; makes one if it is missing, broken, or a parent's.
    ///
    /// # Errors
    /// Those of the options and of connecting.
    pub fn to(&self, address: &Address) -> Result<Arc<Exchange>, Error> {
        match self.kept(address).filter(|exchange| exchange.stands()) {
            Some(exchange) => Ok(exchange),
            None => {
                let fresh = Exchange::connect(address, &(self.options)()?)?;
                self.keep(address, &fresh);
                Ok(fresh)
            }
        }
    }

    /// Returns this process's connection to a server, if there is one; it may have ended meanwhile.
    pub fn kept(&self, address: &Address) -> Option<Arc<Exchange>> {
        let found = self.hold().get(address).cloned();
        found.and_then(|(process, exchange)| (process == lineage::mark()).then_some(exchange))
    }

    /// Keeps a connection that this process has made, in place of an earlier one.
    pub fn keep(&self, address: &Address, fresh: &Arc<Exchange>) {
        let entry = (lineage::mark(), Arc::clone(fresh));
        let earlier = self.hold().insert(address.clone(), entry);
        drop(earlier);
    }

    /// Drops the connections; each ends with the last file that uses it.
    pub fn close_all(&self) {
        // Outside the lock, since closing a connection takes time.
        let kept = std::mem::take(&mut *self.hold());
        drop(kept);
    }
}
