//! XRC extended transport header (annex A14): reserved 8 bits, shared receive queue 24. Directly
//! behind the BTH of requests.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::SrqNumber;

/// The shared receive queue of an XRC request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xrceth {
    /// The shared receive queue.
    pub srq: SrqNumber,
}

impl Xrceth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            srq: SrqNumber::new(reader.u32("XRCETH")?),
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.srq.value());
    }
}
