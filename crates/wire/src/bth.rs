//! Base transport header (specification 9.2).
//!
//! ```text
//! opcode 8 | SE 1, M 1, PadCnt 2, TVer 4 | P_Key 16
//! F 1, B 1, resv 6, DestQP 24 | A 1, resv 7, PSN 24
//! ```

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::{PKey, Qpn};
use crate::opcode::Opcode;
use crate::psn::Psn;

/// Length of a BTH in bytes.
pub const LENGTH: usize = 12;

/// Bits that are ignored on receipt.
pub const RESERVED: [u8; LENGTH] = [0, 0, 0, 0, 0x3f, 0, 0, 0, 0x7f, 0, 0, 0];

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const PAD_SHIFT: u32 = 4;
const VERSION: u8 = 0x0f;
const FORWARD: u8 = 0x80;
const BACKWARD: u8 = 0x40;
const ACK_REQUEST: u32 = 0x8000_0000;

/// The header of every packet. It does not include the pad count, which follows from the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bth {
    /// The opcode.
    pub opcode: Opcode,
    /// Whether the receiver's completion raises a solicited event.
    pub solicited_event: bool,
    /// The state of automatic path migration. Adapters send 1, "migrated", on a connection that
    /// does not migrate.
    pub migrated: bool,
    /// The partition.
    pub partition_key: PKey,
    /// FECN: a switch on the path to the receiver was congested.
    pub forward_congestion: bool,
    /// BECN: a switch on the reverse path was congested.
    pub backward_congestion: bool,
    /// The receiving queue pair.
    pub destination: Qpn,
    /// Whether the responder acknowledges at once.
    pub ack_request: bool,
    /// The packet's sequence number.
    pub psn: Psn,
}

/// Pad bytes after the payload: 0 to 3, so that the ICRC begins at a multiple of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PadCount(u8);

impl PadCount {
    /// Returns the pad count for this payload length in bytes.
    pub const fn of(payload: usize) -> Self {
        Self((payload.wrapping_neg() & 3) as u8)
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl Bth {
    /// Returns a header with default fields: default partition, migrated, no solicited event, no
    /// congestion, no acknowledgement request.
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited_event: false,
            migrated: true,
            partition_key: PKey::DEFAULT,
            forward_congestion: false,
            backward_congestion: false,
            destination,
            ack_request: false,
            psn,
        }
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<(Self, PadCount), Error> {
        let at = reader.at();
        let bytes: [u8; LENGTH] = reader.array("BTH")?;
        let [code, flags, p0, p1, congestion, d0, d1, d2, ack, s0, s1, s2] = bytes;
        let refuse = |field, offset, found: u8, expected| Error::Value {
            field,
            at: at + offset,
            found: found.into(),
            expected,
        };
        let opcode = Opcode::from_code(code).ok_or_else(|| {
            refuse(
                "BTH opcode",
                0,
                code,
                "an operation of RC, UC, UD or XRC, or CNP",
            )
        })?;
        if flags & VERSION != 0 {
            return Err(refuse("BTH transport version", 1, flags & VERSION, "0"));
        }
        let header = Self {
            opcode,
            solicited_event: flags & SOLICITED != 0,
            migrated: flags & MIGRATED != 0,
            partition_key: PKey(u16::from_be_bytes([p0, p1])),
            forward_congestion: congestion & FORWARD != 0,
            backward_congestion: congestion & BACKWARD != 0,
            destination: Qpn::new(u32::from_be_bytes([0, d0, d1, d2])),
            ack_request: ack & 0x80 != 0,
            psn: Psn::new(u32::from_be_bytes([0, s0, s1, s2])),
        };
        Ok((header, PadCount(flags >> PAD_SHIFT & 3)))
    }

    pub(crate) fn emit(&self, pad: PadCount, writer: &mut Writer<'_>) {
        writer.u8(self.opcode.code());
        writer.u8(bit(self.solicited_event, SOLICITED)
            | bit(self.migrated, MIGRATED)
            | pad.0 << PAD_SHIFT);
        writer.u16(self.partition_key.0);
        let congestion =
            bit(self.forward_congestion, FORWARD) | bit(self.backward_congestion, BACKWARD);
        writer.u32(u32::from(congestion) << 24 | self.destination.value());
        let ack = if self.ack_request { ACK_REQUEST } else { 0 };
        writer.u32(ack | self.psn.value());
    }
}

const fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::{Operation, Service};

    /// A SEND ONLY of 33 bytes that Linux 6.1 rxe sent.
    const GOLDEN: [u8; LENGTH] = [
        0x04, 0x30, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0xbd, 0x34, 0x20,
    ];

    fn golden() -> Bth {
        let opcode = Opcode::new(Service::Rc, Operation::SendOnly).unwrap();
        Bth {
            migrated: false,
            ack_request: true,
            ..Bth::new(opcode, Qpn::new(0x11), Psn::new(0xbd_3420))
        }
    }

    #[test]
    fn golden_header_is_parsed() {
        let (header, pad) = Bth::parse(&mut Reader::new(&GOLDEN)).unwrap();
        assert_eq!(header, golden());
        assert_eq!(pad.bytes(), 3);
    }

    #[test]
    fn golden_header_is_emitted() {
        let mut bytes = [0xaa; LENGTH];
        golden().emit(
            PadCount::of(33),
            &mut Writer::with_room(&mut bytes, LENGTH).unwrap(),
        );
        assert_eq!(bytes, GOLDEN);
    }

    #[test]
    fn another_transport_version_is_refused_with_its_offset() {
        let mut bytes = GOLDEN;
        bytes[1] |= 5;
        assert_eq!(
            Bth::parse(&mut Reader::new(&bytes)),
            Err(Error::Value {
                field: "BTH transport version",
                at: 1,
                found: 5,
                expected: "0",
            })
        );
    }

    #[test]
    fn pad_counts_fill_to_four_bytes() {
        for (payload, pad) in [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0), (1023, 1), (4096, 0)] {
            assert_eq!(PadCount::of(payload).bytes(), pad);
        }
    }
}
