//! An open file on a connection that it shares with others.
//!
//! Requests of one file are carried out in their order as far as one of them changes something, and are in no order with those
//! of other files.

use std::sync::Arc;

use verbena_rfio_protocol::request::{Copy, OnHandle, Open};
use verbena_rfio_protocol::types::{Attributes, Handle, Path};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request};

use super::{Errand, Exchange, Memory, Ticket};
use crate::client::error::Error;
use crate::client::lineage;
use crate::client::session::unexpected;

/// The file.
#[derive(Debug)]
pub struct SharedFile {
    exchange: Arc<Exchange>,
    handle: Handle,
    attributes: Attributes,
    process: u64,
}

impl SharedFile {
    /// Opens a file; `flags` are the protocol's.
    pub fn open(
        exchange: Arc<Exchange>,
        path: &Path,
        flags: u32,
        mode: u32,
    ) -> Result<Self, Error> {
        let request = Request::Open(Open {
            path: path.clone(),
            flags,
            mode,
        });
        match exchange.call(request)? {
            Reply::Opened(opened) => Ok(Self {
                exchange,
                handle: opened.handle,
                attributes: opened.attributes,
                process: lineage::mark(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens a file that was open before. It must still be the one with this device and inode.
    pub fn again(
        exchange: Arc<Exchange>,
        path: &Path,
        flags: u32,
        identity: (u64, u64),
    ) -> Result<Self, Error> {
        let file = Self::open(exchange, path, flags, 0)?;
        match file.identity() == identity {
            true => Ok(file),
            false => Err(Error::Changed),
        }
    }

    /// The file on the connection.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// What it was when it was opened.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Device and inode on the server.
    pub fn identity(&self) -> (u64, u64) {
        (self.attributes.device, self.attributes.inode)
    }

    /// Whether it can still be used, by this process.
    pub fn is_usable(&self) -> bool {
        self.process == lineage::mark() && self.exchange.stands()
    }

    /// One request without data, and its reply.
    pub fn call(&self, request: Request) -> Result<Reply, Error> {
        self.exchange.call(request)
    }

    /// What it is now.
    pub fn examine(&self) -> Result<Attributes, Error> {
        let handle = self.handle;
        match self.call(Request::Examine(OnHandle { handle }))? {
            Reply::Examined(about) => Ok(about.attributes),
            other => Err(unexpected(&other)),
        }
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
        match self.call(request)? {
            Reply::Copied(copied) => Ok(Some(copied.length.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins an errand of the file.
    pub fn begin(&self, errand: Errand, memory: impl Memory + 'static) -> Result<Ticket, Error> {
        self.exchange.begin(errand, memory)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // Behind all that is under way on the file. A connection that is gone has closed it.
        let _ = self.exchange.call(Request::Close(OnHandle {
            handle: self.handle,
        }));
    }
}
