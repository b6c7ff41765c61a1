//! Memory accessible to the adapter: buffers, their registration, and the processor's access to
//! them.
//!
//! The processor accesses registered memory by copies and by single loads and stores, never by
//! reference, because the adapter and the peer may change it at any time.

use crate::error::{Error, Result};
use std::array;

/// Location of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// Host memory.
    #[default]
    Host,
    /// Memory on the adapter (`ibv_alloc_dm`; the memfree paper's "NIC memory").
    Device,
}

/// Parameters of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferRequest {
    /// Size in bytes.
    pub length: usize,
    /// Host or adapter memory.
    pub location: Location,
}

impl BufferRequest {
    /// Returns a request for host memory.
    pub fn host(length: usize) -> Self {
        BufferRequest {
            length,
            ..Self::default()
        }
    }
}

/// Permissions of peers on a region. The owner may always read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may perform atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// No remote access.
    pub const LOCAL: Access = Access {
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
    /// All remote operations.
    pub const ALL: Access = Access {
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };
    /// Remote reads and writes, for adapters without atomics.
    pub const READ_WRITE: Access = Access {
        remote_write: true,
        remote_read: true,
        remote_atomic: false,
    };
}

/// The data about a region that a peer needs to access it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteRegion {
    /// Address of its first byte, in the owner's address space.
    pub address: u64,
    /// Its remote key.
    pub key: u32,
    /// Length in bytes.
    pub length: u64,
}

impl RemoteRegion {
    /// Size of the serialised form.
    pub const BYTES: usize = 20;

    /// Returns the location `offset` bytes into the region. The owner's adapter checks offsets, not
    /// this function.
    pub fn at(&self, offset: usize) -> crate::Remote {
        crate::Remote {
            address: self.address.wrapping_add(offset as u64),
            key: self.key,
        }
    }

    /// Serialises to little-endian bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Deserialises the result of [`RemoteRegion::to_bytes`].
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| {
            Error::invalid(
                "RemoteRegion::from_bytes",
                format!("expected {} bytes, found {}", Self::BYTES, bytes.len()),
            )
        })?;
        let u64_at = |i: usize| u64::from_le_bytes(array::from_fn(|at| bytes[i + at]));
        Ok(RemoteRegion {
            address: u64_at(0),
            key: u32::from_le_bytes(array::from_fn(|at| bytes[8 + at])),
            length: u64_at(12),
        })
    }
}

/// Bytes read at a time, into memory that stays in the nearest cache.
const CONSUMED: usize = 4096;

/// A registered buffer.
///
/// Access through this trait costs the time that it takes on the fabric's machine; models count
/// `load_*` and `store_*` as free and charge [`Region::copy`] and [`Region::consume`] by length.
pub trait Region {
    /// Returns the length in bytes.
    fn length(&self) -> usize;
    /// Returns the data that peers need to access it.
    fn remote(&self) -> RemoteRegion;
    /// Copies `bytes` to `offset`; for set-up, not for timed code.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if the range is outside the region.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Copies from `offset`; for verification, not for timed code.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if the range is outside the region.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()>;
    /// Loads one byte.
    ///
    /// # Panics
    ///
    /// If it is outside the region.
    fn load_byte(&self, offset: usize) -> u8;
    /// Stores one byte.
    ///
    /// # Panics
    ///
    /// If it is outside the region.
    fn store_byte(&self, offset: usize, value: u8);
    /// Loads eight aligned bytes in native byte order.
    ///
    /// # Panics
    ///
    /// If they are outside the region or not aligned.
    fn load_word(&self, offset: usize) -> u64;
    /// Stores eight aligned bytes in native byte order.
    ///
    /// # Panics
    ///
    /// If they are outside the region or not aligned.
    fn store_word(&self, offset: usize, value: u64);
    /// Waits until the byte at `offset` is `value`: memory polling, as by the receiver of a
    /// write-latency test.
    ///
    /// # Errors
    ///
    /// Returns an error of rule 10 if the wait ends early.
    async fn until_byte(&self, offset: usize, value: u8) -> Result<()>;
    /// Waits until the aligned word at `offset` is `value`.
    ///
    /// # Errors
    ///
    /// As [`Region::until_byte`].
    async fn until_word(&self, offset: usize, value: u64) -> Result<()>;
    /// Has the processor copy `length` bytes from `source` at `from` to this region at `to`, as in
    /// an eager protocol.
    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()>;
    /// Has the processor read `length` bytes from `offset`, like a program that uses received data.
    async fn consume(&self, offset: usize, length: usize) -> Result<()> {
        let mut part = [0; CONSUMED];
        let end = offset + length;
        for at in (offset..end).step_by(CONSUMED) {
            let part = &mut part[..CONSUMED.min(end - at)];
            self.read(at, part)?;
            std::hint::black_box(part);
        }
        Ok(())
    }
}
