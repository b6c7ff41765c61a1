//! Immediate data (specification 9.3.6) and the invalidate header (9.3.7), four bytes each.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::RKey;

/// Four bytes passed to the receiver unchanged: verbs' `imm_data` is in network byte order too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Immediate(pub [u8; 4]);

/// The remote key that the receiver must invalidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ieth {
    /// The key.
    pub key: RKey,
}

impl Immediate {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self(reader.array("ImmDt")?))
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.put(&self.0);
    }
}

impl Ieth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            key: RKey(reader.u32("IETH")?),
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.key.0);
    }
}
