//! An open file on a connection that it shares with others.
//!
//! Requests of one file are carried out in their order as far as one of them changes something, and are in no order with those
//! of other files.

use std::sync::Arc;

use verbena_rfio_protocol::reply::Checksums;
use verbena_rfio_protocol::request::{Checksum, Copy, OnHandle, Open, Truncate};
use verbena_rfio_protocol::types::{Attributes, Handle, Path, Range};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request};

use super::{Errand, Exchange, Given, Memory, Ticket};
use crate::checksum;
use crate::client::error::Error;
use crate::client::lineage;
use crate::client::session::unexpected;

/// The file.
#[derive(Debug)]
pub struct SharedFile {
    exchange: Arc<Exchange>,
    handle: Handle,
    attributes: Attributes,
    open: bool,
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
                open: true,
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

    /// The connection.
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
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

    /// The version of the protocol on its connection.
    pub fn version(&self) -> u16 {
        self.exchange.version()
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

    /// Reads ranges with as few requests as the server allows, packed in their order into `packed`, whose memory is used again;
    /// the length of each, which is shorter only where the file ends.
    pub fn read_packed(&self, ranges: &[Range], packed: &mut Vec<u8>) -> Result<Vec<u32>, Error> {
        let lengths = ranges.iter().map(|range| range.length as usize);
        let places: Vec<usize> = lengths
            .scan(0, |end, length| {
                *end += length;
                Some(*end - length)
            })
            .collect();
        let mut memory = std::mem::take(packed);
        memory.resize(ranges.iter().map(|range| range.length as usize).sum(), 0);
        let errand = Errand::Vector {
            handle: self.handle,
            ranges: ranges.to_vec(),
        };
        let done = self.begin(errand, memory)?.wait()?;
        let Given::Vector(lengths) = done.outcome? else {
            return Err(Error::Dropped("before it answered"));
        };
        *packed = done.memory.into_bytes();
        // A range has its place whether it is full or not.
        let mut end = 0;
        for (&place, &length) in places.iter().zip(&lengths) {
            if place != end {
                packed.copy_within(place..place + length as usize, end);
            }
            end += length as usize;
        }
        packed.truncate(end);
        Ok(lengths)
    }

    /// Fills memory from an offset on, until it is full or the file ends; how many bytes are there,
    /// and the memory.
    pub fn read(&self, offset: u64, memory: Vec<u8>) -> Result<(usize, Vec<u8>), Error> {
        let handle = self.handle;
        let done = self
            .begin(Errand::Read { handle, offset }, memory)?
            .wait()?;
        match done.outcome? {
            Given::Read(length) => Ok((length, done.memory.into_bytes())),
            _ => Err(Error::Dropped("before it answered")),
        }
    }

    /// The CRC32C of the whole file. The server computes it, from the file: no data travel.
    pub fn checksum(&self) -> Result<u32, Error> {
        let block = self.exchange.terms().block;
        let about = self.examine()?;
        let (mut sum, mut offset) = (0, 0);
        while offset < about.size {
            let left = (about.size - offset).div_ceil(block.into());
            let part = self.checksums(offset, block, left)?;
            if part.checksums.is_empty() || part.version != about.version {
                return Err(Error::Changed);
            }
            for each in part.checksums {
                let length = (about.size - offset).min(block.into());
                sum = checksum::combine(sum, each, length);
                offset += length;
            }
        }
        Ok(sum)
    }

    /// The checksums of blocks from an offset on: some of so many, and none where the file ends.
    pub fn checksums(&self, offset: u64, block: u32, count: u64) -> Result<Checksums, Error> {
        const BATCH: u64 = 256;
        let wanted = count.min(BATCH);
        let request = Request::Checksum(Checksum {
            handle: self.handle,
            offset,
            block,
            count: wanted as u32,
        });
        match self.call(request)? {
            Reply::Checksums(part) if part.checksums.len() as u64 > wanted => {
                Err(Error::Protocol("more checksums than were asked for".into()))
            }
            Reply::Checksums(part) => Ok(part),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets the length.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        let handle = self.handle;
        self.call(Request::Truncate(Truncate { handle, size }))
            .map(|_| ())
    }

    /// Puts what was written on stable storage.
    pub fn synchronise(&self) -> Result<(), Error> {
        let handle = self.handle;
        self.call(Request::Synchronise(OnHandle { handle }))
            .map(|_| ())
    }

    /// Closes, and says if that failed.
    pub fn close(mut self) -> Result<(), Error> {
        self.open = false;
        let handle = self.handle;
        self.call(Request::Close(OnHandle { handle })).map(|_| ())
    }

    /// Begins an errand of the file.
    pub fn begin(&self, errand: Errand, memory: impl Memory + 'static) -> Result<Ticket, Error> {
        self.exchange.begin(errand, memory)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // Behind all that is under way on the file. A connection that is gone has closed it.
        if self.open {
            let handle = self.handle;
            let _ = self.call(Request::Close(OnHandle { handle }));
        }
    }
}
