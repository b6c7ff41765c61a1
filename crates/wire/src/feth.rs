//! FLUSH extended transport header (annex A19): reserved 26 bits, selectivity level 2, placement
//! type 4. Precedes the RETH.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::opcode::Header;

/// Length of a FETH in bytes.
pub const LENGTH: usize = Header::Feth.length();

/// The required placement of earlier data. A FLUSH requests at least one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Visible to all observers on the responder.
    Visible,
    /// Preserved over a power loss.
    Persistent,
    /// Both.
    VisibleAndPersistent,
}

/// The memory to flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selectivity {
    /// The range in the RETH.
    Range,
    /// The whole region of the key.
    Region,
}

/// A FLUSH extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feth {
    /// The required placement.
    pub placement: Placement,
    /// The memory.
    pub selectivity: Selectivity,
}

impl Feth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let at = reader.at() + LENGTH - 1;
        let [_, _, _, low] = reader.array("FETH")?;
        let refuse = |field, found: u8, expected| Error::Value {
            field,
            at,
            found: found.into(),
            expected,
        };
        let placement = match low & 0x0f {
            1 => Placement::Visible,
            2 => Placement::Persistent,
            3 => Placement::VisibleAndPersistent,
            other => {
                return Err(refuse(
                    "FETH placement type",
                    other,
                    "1 (visible), 2 (persistent) or 3",
                ));
            }
        };
        let selectivity = match low >> 4 & 3 {
            0 => Selectivity::Range,
            1 => Selectivity::Region,
            other => {
                return Err(refuse(
                    "FETH selectivity level",
                    other,
                    "0 (range) or 1 (region)",
                ));
            }
        };
        Ok(Self {
            placement,
            selectivity,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        let placement = match self.placement {
            Placement::Visible => 1,
            Placement::Persistent => 2,
            Placement::VisibleAndPersistent => 3,
        };
        let selectivity = match self.selectivity {
            Selectivity::Range => 0,
            Selectivity::Region => 1,
        };
        writer.u32(selectivity << 4 | placement);
    }
}
