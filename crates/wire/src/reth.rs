//! RDMA extended transport header (specification 9.3.3): virtual address 64 bits, R_Key 32, DMA
//! length 32.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::RKey;

/// The responder's memory that a request accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reth {
    /// The address of the first byte.
    pub address: u64,
    /// The remote key.
    pub key: RKey,
    /// Bytes of the whole message; at most 2^31.
    pub length: u32,
}

impl Reth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            address: reader.u64("RETH")?,
            key: RKey(reader.u32("RETH")?),
            length: reader.u32("RETH")?,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u64(self.address);
        writer.u32(self.key.0);
        writer.u32(self.length);
    }
}
