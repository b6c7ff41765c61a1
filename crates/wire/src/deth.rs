//! Datagram extended transport header, DETH (specification 9.3.2): Q_Key 32 bits, reserved 8,
//! source queue pair 24.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::{QKey, Qpn};
use crate::opcode::Header;

/// Length of a DETH in bytes.
pub const LENGTH: usize = Header::Deth.length();

/// Source and Q_Key of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Must be equal to the receiving queue pair's.
    pub queue_key: QKey,
    /// The sending queue pair.
    pub source: Qpn,
}

impl Deth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            queue_key: QKey(reader.u32("DETH")?),
            source: Qpn::new(reader.u32("DETH")?),
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.queue_key.0);
        writer.u32(self.source.value());
    }
}
