//! An open file on a shared connection.
//!
//! Requests of one file are carried out in order as far as one of them modifies it; they are
//! unordered relative to those of other files.

use std::sync::Arc;

use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::reply::Checksums;
use verbena_rfio_protocol::request::{Checksum, Copy, OnHandle, Open, Truncate};
use verbena_rfio_protocol::types::{Attributes, Handle, Path, Range};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request};

use super::{Memory, MultiplexedConnection, Operation, OperationOutput, PendingOperation};
use crate::error::Error;
use crate::fork_guard;

/// The file.
#[derive(Debug)]
pub struct SharedFile {
    connection: Arc<MultiplexedConnection>,
    handle: Handle,
    attributes: Attributes,
    open: bool,
    process: u64,
}

impl SharedFile {
    /// Opens a file; `flags` are the protocol's.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn open(
        connection: Arc<MultiplexedConnection>,
        path: &Path,
        flags: u32,
        mode: u32,
    ) -> Result<Self, Error> {
        let request = Request::Open(Open {
            path: path.clone(),
            flags,
            mode,
        });
        match connection.call(request)? {
            Reply::Opened(opened) => Ok(Self {
                connection,
                handle: opened.handle,
                attributes: opened.attributes,
                open: true,
                process: fork_guard::generation(),
            }),
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Reopens a file, which must still have this device and inode.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is another file; as [`SharedFile::open`].
    pub fn reopen(
        connection: Arc<MultiplexedConnection>,
        path: &Path,
        flags: u32,
        identity: (u64, u64),
    ) -> Result<Self, Error> {
        let file = Self::open(connection, path, flags, 0)?;
        match file.identity() == identity {
            true => Ok(file),
            false => Err(Error::Changed),
        }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Arc<MultiplexedConnection> {
        &self.connection
    }

    /// Returns the file's handle on the connection.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the attributes from the time of opening.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns device and inode on the server.
    pub fn identity(&self) -> (u64, u64) {
        (self.attributes.device, self.attributes.inode)
    }

    /// Returns the connection's protocol version.
    pub fn version(&self) -> u16 {
        self.connection.version()
    }

    /// Returns whether this process can still use the file.
    pub fn is_usable(&self) -> bool {
        self.process == fork_guard::generation() && self.connection.is_usable()
    }

    /// Sends one request without data and returns its reply.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn call(&self, request: Request) -> Result<Reply, Error> {
        self.connection.call(request)
    }

    /// Returns the current attributes.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn examine(&self) -> Result<Attributes, Error> {
        let handle = self.handle;
        match self.call(Request::Examine(OnHandle { handle }))? {
            Reply::Examined(about) => Ok(about.attributes),
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Copies part of the file to another one on the same server, without moving data to the
    /// client. Returns the number of bytes, zero at the end of the file. Returns `None` if the
    /// files are on different connections, or the server's protocol version is too old.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn copy_to(
        &self,
        offset: u64,
        other: &Self,
        at: u64,
        length: u64,
    ) -> Result<Option<u64>, Error> {
        if !Arc::ptr_eq(&self.connection, &other.connection)
            || self.connection.version() < ANY_ORDER
        {
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
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Reads ranges with as few requests as the server allows, in order and without gaps into
    /// `packed`, whose memory is reused. Returns the length of each, which is shorter only at the
    /// end of the file.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
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
        let operation = Operation::Vector {
            handle: self.handle,
            ranges: ranges.to_vec(),
        };
        let done = self.begin(operation, memory)?.wait()?;
        let OperationOutput::Vector(lengths) = done.outcome? else {
            return Err(Error::Dropped("before it replied"));
        };
        *packed = done.memory.into_bytes();
        // Each range is stored at its full length's offset, even if it is short.
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

    /// Fills memory from an offset on, until it is full or the file ends; returns the number of
    /// bytes read, and the memory.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn read(&self, offset: u64, memory: Vec<u8>) -> Result<(usize, Vec<u8>), Error> {
        let handle = self.handle;
        let done = self
            .begin(Operation::Read { handle, offset }, memory)?
            .wait()?;
        match done.outcome? {
            OperationOutput::Read(length) => Ok((length, done.memory.into_bytes())),
            _ => Err(Error::Dropped("before it replied")),
        }
    }

    /// Returns the CRC32C of the whole file. The server computes it from the file; no data are
    /// transferred.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file changes meanwhile; the server refuses, or the connection
    /// fails.
    pub fn checksum(&self) -> Result<u32, Error> {
        let block = self.connection.server_limits().block;
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

    /// Returns checksums of at most `count` blocks from an offset on: at least one, unless the file
    /// ends there.
    ///
    /// # Errors
    /// The server refuses or violates the protocol, or the connection fails.
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
                Err(Error::Protocol("more checksums than requested".into()))
            }
            Reply::Checksums(part) => Ok(part),
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Sets the file's size in bytes.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        let handle = self.handle;
        self.call(Request::Truncate(Truncate { handle, size }))
            .map(|_| ())
    }

    /// Flushes written data to stable storage.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn synchronise(&self) -> Result<(), Error> {
        let handle = self.handle;
        self.call(Request::Synchronise(OnHandle { handle }))
            .map(|_| ())
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The server reports a failure, or the connection fails.
    pub fn close(mut self) -> Result<(), Error> {
        self.open = false;
        let handle = self.handle;
        self.call(Request::Close(OnHandle { handle })).map(|_| ())
    }

    /// Begins an operation on the file.
    ///
    /// # Errors
    /// As [`MultiplexedConnection::begin`].
    pub fn begin(
        &self,
        operation: Operation,
        memory: impl Memory + 'static,
    ) -> Result<PendingOperation, Error> {
        self.connection.begin(operation, memory)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // Ordered after all requests in progress on the file. If the connection has failed, the
        // server closes the file itself.
        if self.open {
            let handle = self.handle;
            let _ = self.call(Request::Close(OnHandle { handle }));
        }
    }
}
