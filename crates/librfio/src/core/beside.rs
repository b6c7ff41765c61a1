//! The connections that requests under way share: one for each server, with many requests of many files on it.
//!
//! A file that requests are begun on is opened once more there, by its name. Requests of one file are carried out in their
//! order as far as one of them changes something; calls of the classic interface have connections of their own and are in no
//! order with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use verbena_rfio::client::exchange::{Errand, Memory, Ticket};
use verbena_rfio::client::{Address, Error, Exchange, Options, lineage};
use verbena_rfio_protocol::request::{Copy, OnHandle, Open};
use verbena_rfio_protocol::types::{Handle, Path};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request};

use super::forks;

/// A connection, and the process that opened it.
type Kept = HashMap<Address, (u64, Arc<Exchange>)>;

/// The table, locked.
pub type Guard = MutexGuard<'static, Kept>;

/// Locks it, for a look or for the time of a fork.
pub fn hold() -> Guard {
    static KEPT: OnceLock<Mutex<Kept>> = OnceLock::new();
    KEPT.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

fn exchange(address: &Address) -> Result<Arc<Exchange>, Error> {
    forks::prepare();
    let found = hold().get(address).cloned();
    match found {
        Some((process, exchange)) if process == lineage::mark() && stands(&exchange) => {
            Ok(exchange)
        }
        _ => {
            let fresh = Exchange::connect(address, &Options::from_environment()?)?;
            let entry = (lineage::mark(), Arc::clone(&fresh));
            hold().insert(address.clone(), entry);
            Ok(fresh)
        }
    }
}

/// Whether the server has not gone meanwhile, as far as is known here.
fn stands(exchange: &Exchange) -> bool {
    exchange.advance().is_ok() && !exchange.is_broken()
}

/// Lets the connections go; each ends with the last file that uses it.
pub fn close_all() {
    hold().clear();
}

/// A file on such a connection.
pub struct Beside {
    exchange: Arc<Exchange>,
    handle: Handle,
    process: u64,
}

impl Beside {
    /// Opens a file; `flags` are the protocol's. It must be the one with this device and inode.
    pub fn open(
        address: &Address,
        path: &Path,
        flags: u32,
        identity: (u64, u64),
    ) -> Result<Self, Error> {
        let exchange = exchange(address)?;
        let request = Request::Open(Open {
            path: path.clone(),
            flags,
            mode: 0,
        });
        let opened = match exchange.call(request)? {
            Reply::Opened(opened) => opened,
            other => {
                return Err(Error::Protocol(format!(
                    "unexpected reply {}",
                    other.name()
                )));
            }
        };
        let beside = Self {
            exchange,
            handle: opened.handle,
            process: lineage::mark(),
        };
        match (opened.attributes.device, opened.attributes.inode) == identity {
            true => Ok(beside),
            false => Err(Error::Changed),
        }
    }

    /// The file on the connection.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Whether it can still be used, by this process.
    pub fn is_usable(&self) -> bool {
        self.process == lineage::mark() && stands(&self.exchange)
    }

    /// Copies part of the file to another one of the same server, where they are; how many bytes, zero at the end. `None` if
    /// the server is another one, or too old for that.
    pub fn copy_to(
        &self,
        offset: u64,
        other: &Self,
        at: u64,
        length: u64,
    ) -> Result<Option<u64>, Error> {
        if !Arc::ptr_eq(&self.exchange, &other.exchange) || self.exchange.version() < ANY_ORDER {
            return Ok(None);
        }
        let request = Request::Copy(Copy {
            from: self.handle,
            offset,
            to: other.handle,
            at,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        });
        match self.exchange.call(request)? {
            Reply::Copied(copied) => Ok(Some(copied.length.into())),
            other => Err(Error::Protocol(format!(
                "unexpected reply {}",
                other.name()
            ))),
        }
    }

    /// Begins an errand of the file.
    pub fn begin(&self, errand: Errand, memory: impl Memory + 'static) -> Result<Ticket, Error> {
        self.exchange.begin(errand, memory)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Behind all that is under way on the file. A connection that is gone has closed it.
        let _ = self.exchange.call(Request::Close(OnHandle {
            handle: self.handle,
        }));
    }
}
