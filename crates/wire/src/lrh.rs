//! Local route header (specification 7.7): the link header of packets within an InfiniBand subnet.
//!
//! ```text
//! VL 4, LVer 4 | SL 4, resv 2, LNH 2 | DLID 16 | resv 5, packet length 11 | SLID 16
//! ```

use crate::cursor::{Reader, Writer};
use crate::error::{EmitError, Error};
use crate::ids::Lid;

/// Length of an LRH in bytes.
pub const LENGTH: usize = 8;
/// Bits that are ignored on receipt.
pub const RESERVED: [u8; LENGTH] = [0, 0x0c, 0, 0, 0xf8, 0, 0, 0];

/// The type of header after the LRH (LNH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Raw, with an Ethertype.
    RawEthertype = 0,
    /// Raw, with an IPv6 header.
    RawIpv6 = 1,
    /// A BTH: the packet stays in this subnet.
    Local = 2,
    /// A GRH.
    Global = 3,
}

/// A local route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lrh {
    /// Virtual lane, 4 bits.
    pub virtual_lane: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// The header after this one.
    pub next: Next,
    /// Destination.
    pub destination: Lid,
    /// Length in units of 4 bytes, from this header up to but not including the variant CRC; 11
    /// bits.
    pub words: u16,
    /// Source.
    pub source: Lid,
}

impl Lrh {
    /// Reads the header from the front of `bytes`.
    ///
    /// # Errors
    ///
    /// Too few bytes, or a link version other than 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let [lane, level, d0, d1, l0, l1, s0, s1]: [u8; LENGTH] =
            Reader::new(bytes).array("LRH")?;
        if lane & 0x0f != 0 {
            return Err(Error::Value {
                field: "LRH link version",
                at: 0,
                found: u64::from(lane & 0x0f),
                expected: "0",
            });
        }
        let next = match level & 3 {
            0 => Next::RawEthertype,
            1 => Next::RawIpv6,
            2 => Next::Local,
            _ => Next::Global,
        };
        Ok(Self {
            virtual_lane: lane >> 4,
            service_level: level >> 4,
            next,
            destination: Lid(u16::from_be_bytes([d0, d1])),
            words: u16::from_be_bytes([l0, l1]) & 0x07ff,
            source: Lid(u16::from_be_bytes([s0, s1])),
        })
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`LENGTH`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let mut writer = Writer::with_room(buffer, LENGTH)?;
        writer.u8(self.virtual_lane << 4);
        writer.u8(self.service_level << 4 | self.next as u8);
        writer.u16(self.destination.0);
        writer.u16(self.words & 0x07ff);
        writer.u16(self.source.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lrh_bytes_round_trip(bytes: [u8; LENGTH]) {
            let mut again = [0; LENGTH];
            match Lrh::parse(&bytes) {
                Ok(header) => {
                    header.emit(&mut again).unwrap();
                    let expected: std::vec::Vec<u8> =
                        bytes.iter().zip(RESERVED).map(|(byte, mask)| byte & !mask).collect();
                    prop_assert_eq!(&again[..], &expected[..]);
                    prop_assert_eq!(Lrh::parse(&again), Ok(header));
                }
                Err(_) => prop_assert!(bytes[0] & 0x0f != 0),
            }
        }
    }
}
