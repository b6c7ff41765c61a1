//! Atomic headers (specification 9.3.4 and 9.3.5): AtomicETH with virtual address 64 bits, R_Key
//! 32, swap or add 64, compare 64; AtomicAckETH with the original value 64.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::RKey;

/// Address and operands of an atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// The address, a multiple of 8.
    pub address: u64,
    /// The remote key.
    pub key: RKey,
    /// The new value of CompareSwap, or the addend of FetchAdd.
    pub swap_or_add: u64,
    /// The value that CompareSwap compares with; unused by FetchAdd.
    pub compare: u64,
}

/// The result of an atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The previous value.
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
