//! FLUSH extended transport header (annex A19): reserved 26, selectivity level 2, placement type 4. Before the RETH.

use crate::cursor::{Reader, Writer};
use crate::error::Error;

/// Bytes of a FETH.
pub const LENGTH: usize = 4;
/// Bits that are ignored on receipt.
pub const RESERVED: [u8; LENGTH] = [0xff, 0xff, 0xff, 0xc0];

/// Until when earlier data must have arrived. At least one of them; both may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Visible to everything on the responder.
    Visible,
    /// Kept over a loss of power.
    Persistent,
    /// Both.
    VisibleAndPersistent,
}

/// Which memory is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selectivity {
    /// The bytes that the RETH names.
    Range,
    /// The whole region that the key names.
    Region,
}

/// What a FLUSH asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feth {
    /// Until when.
    pub placement: Placement,
    /// Which memory.
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
