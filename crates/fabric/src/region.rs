//! Memory that the adapter may reach: buffers, their registration, and the processor's own access to them.
//!
//! The processor reaches registered memory by copies and by single loads and stores, never by reference, because the
//! adapter and the peer may change it at any moment.

use crate::error::{Error, Result};

/// Where a buffer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// Memory of the host.
    #[default]
    Host,
    /// Memory on the adapter (`ibv_alloc_dm`; the memfree paper's "NIC memory").
    Device,
}

/// What to allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferRequest {
    /// Bytes.
    pub length: usize,
    /// Host or adapter memory.
    pub location: Location,
}

impl BufferRequest {
    /// Host memory.
    pub fn host(length: usize) -> Self {
        BufferRequest {
            length,
            ..Self::default()
        }
    }
}

/// What peers may do with a region. The owner may always read; local writing is always permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may do atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// For the owner alone.
    pub const LOCAL: Access = Access {
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
    /// Everything that a peer may ask for.
    pub const ALL: Access = Access {
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };
    /// Reads and writes, for adapters without atomics.
    pub const READ_WRITE: Access = Access {
        remote_write: true,
        remote_read: true,
        remote_atomic: false,
    };
}

/// A peer's region, as it is told over the exchange: plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteRegion {
    /// Address of its first byte, in the owner's terms.
    pub address: u64,
    /// Its remote key.
    pub key: u32,
    /// Bytes.
    pub length: u64,
}

impl RemoteRegion {
    /// Its size on the exchange.
    pub const BYTES: usize = 20;

    /// The place `offset` bytes into the region. Offsets are checked by the adapter that owns it, not here.
    pub fn at(&self, offset: usize) -> crate::Remote {
        crate::Remote {
            address: self.address.wrapping_add(offset as u64),
            key: self.key,
        }
    }

    /// For the exchange, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// From the exchange.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| {
            Error::invalid(
                "RemoteRegion::from_bytes",
                format!("expected {} bytes, found {}", Self::BYTES, bytes.len()),
            )
        })?;
        let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        Ok(RemoteRegion {
            address: u64_at(0),
            key: u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes")),
            length: u64_at(12),
        })
    }
}

/// Bytes that are read together, into memory that the nearest cache holds.
const CONSUMED: usize = 4096;

/// A registered buffer.
///
/// Reads and writes through this trait cost the processor what they cost on the fabric's machine; models count
/// `load_*` and `store_*` as free and charge [`Region::copy`] and [`Region::consume`] by
/// their length.
pub trait Region {
    /// Bytes.
    fn length(&self) -> usize;
    /// What peers need to reach it.
    fn remote(&self) -> RemoteRegion;
    /// Copies `bytes` in at `offset`; for set-up, outside of what is timed.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Copies out from `offset`; for verification, outside of what is timed.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()>;
    /// One byte. Panics outside the region.
    fn load_byte(&self, offset: usize) -> u8;
    /// Sets one byte. Panics outside the region.
    fn store_byte(&self, offset: usize, value: u8);
    /// Eight aligned bytes in the machine's order. Panics outside the region or when not aligned.
    fn load_word(&self, offset: usize) -> u64;
    /// Sets eight aligned bytes. Panics outside the region or when not aligned.
    fn store_word(&self, offset: usize, value: u64);
    /// Waits until the byte at `offset` is `value`: memory polling, the receiver of a write-latency test.
    async fn until_byte(&self, offset: usize, value: u8) -> Result<()>;
    /// Waits until the aligned word at `offset` is `value`.
    async fn until_word(&self, offset: usize, value: u64) -> Result<()>;
    /// The processor copies `length` bytes from `source` at `from` to this region at `to`: what an eager protocol does.
    async fn copy(&self, to: usize, source: &Self, from: usize, length: usize) -> Result<()>;
    /// The processor reads `length` bytes from `offset`, as a program does that uses what has arrived.
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
