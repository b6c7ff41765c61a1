//! Atomic headers (specification 9.3.4 and 9.3.5): AtomicETH with virtual address 64, R_Key 32, swap or add 64,
//! compare 64; AtomicAckETH with the original value 64.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::RKey;

/// Bytes of an AtomicETH.
pub const LENGTH: usize = 28;
/// Bits that are ignored on receipt.
pub const RESERVED: [u8; LENGTH] = [0; LENGTH];
/// Bytes of an AtomicAckETH.
pub const ACK_LENGTH: usize = 8;

/// An atomic operation's place and operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// The address, a multiple of 8.
    pub address: u64,
    /// The right to it.
    pub key: RKey,
    /// What is swapped in, or added.
    pub swap_or_add: u64,
    /// What the memory is compared with; nothing to FetchAdd.
    pub compare: u64,
}

/// What the memory held before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The value.
    pub original: u64,
}

impl AtomicEth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            address: reader.u64("AtomicETH")?,
            key: RKey(reader.u32("AtomicETH")?),
            swap_or_add: reader.u64("AtomicETH")?,
            compare: reader.u64("AtomicETH")?,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u64(self.address);
        writer.u32(self.key.0);
        writer.u64(self.swap_or_add);
        writer.u64(self.compare);
    }
}

impl AtomicAckEth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            original: reader.u64("AtomicAckETH")?,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u64(self.original);
    }
}
