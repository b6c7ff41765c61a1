//! Consecutive middle packets of one message. They begin alike but for the PSN and carry one path
//! MTU each, so they are checked once and their payloads are placed in one step.

use crate::bth;
use crate::emit_error::EmitError;
use crate::icrc;
use crate::opcode::{Operation, Service};
use crate::packet::{Headers, Packet};
use crate::psn::Psn;

/// Bytes of the BTH before the word with the PSN, which are equal in all packets.
const BEGINNING: usize = 8;
/// Bit of an acknowledgement request in that word.
const ACK_REQUEST: u32 = 0x8000_0000;

/// At least two consecutive middle packets of a SEND or RDMA WRITE on an RC connection. Only the
/// last may request an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Middles<'a> {
    /// The headers of the first.
    headers: Headers,
    /// The packets, each with its ICRC.
    bytes: &'a [u8],
    /// Bytes of each.
    spacing: usize,
}

impl<'a> Middles<'a> {
    /// Returns the middle packets at the front of received datagrams of `spacing` bytes each;
    /// `None` if there are fewer than two. Checks no ICRC.
    pub fn at_front(datagrams: &'a [u8], spacing: usize) -> Option<Self> {
        let (first, rest) = datagrams.split_at_checked(spacing)?;
        let packet = Packet::parse(first.get(..spacing.checked_sub(icrc::LENGTH)?)?).ok()?;
        let bth = &packet.headers.bth;
        let is_middle = matches!(
            bth.opcode.operation(),
            Operation::SendMiddle | Operation::WriteMiddle
        );
        let is_padded = bth::LENGTH + packet.payload.len() + icrc::LENGTH != spacing;
        if !is_middle || bth.opcode.service() != Service::Rc || bth.ack_request || is_padded {
            return None;
        }
        let mut count = 1;
        for next in rest.chunks_exact(spacing) {
            if next[..BEGINNING] != first[..BEGINNING] {
                break;
            }
            let word = psn_word(next);
            if Psn::new(word) != bth.psn.plus(count) {
                break;
            }
            count += 1;
            if word & ACK_REQUEST != 0 {
                break;
            }
        }
        Self {
            headers: packet.headers,
            bytes: datagrams,
            spacing,
        }
        .first(count as usize)
    }

    /// Returns the first `count` of them; `None` if that is fewer than two.
    #[must_use]
    pub fn first(&self, count: usize) -> Option<Self> {
        let bytes = self.bytes.get(..count * self.spacing)?;
        (count >= 2).then_some(Self { bytes, ..*self })
    }

    /// Returns the first packet.
    pub fn first_packet(&self) -> Packet<'a> {
        Packet {
            headers: self.headers,
            payload: &self.bytes[bth::LENGTH..self.spacing - icrc::LENGTH],
        }
    }

    /// Returns the number of packets.
    pub fn count(&self) -> u32 {
        (self.bytes.len() / self.spacing) as u32
    }

    /// Returns whether the last requests an acknowledgement.
    pub fn ack_request(&self) -> bool {
        let last = self.bytes.len() - self.spacing;
        psn_word(&self.bytes[last..]) & ACK_REQUEST != 0
    }

    /// Returns the packets with their ICRCs.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(self.spacing)
    }

    /// Returns the payloads, all of one length.
    pub fn payloads(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let payload = bth::LENGTH..self.spacing - icrc::LENGTH;
        self.datagrams()
            .map(move |datagram| &datagram[payload.clone()])
    }

    /// Returns the length of all payloads together, in bytes.
    pub fn length(&self) -> u32 {
        self.count() * (self.spacing - bth::LENGTH - icrc::LENGTH) as u32
    }
}

/// Returns the word of the BTH with acknowledgement request and PSN.
fn psn_word(packet: &[u8]) -> u32 {
    let word = packet.get(BEGINNING..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

/// Writes the headers of consecutive packets, one each `spacing` bytes of `buffer`, and returns the
/// slices for their payloads of `payload` bytes. `first` has no extension headers.
///
/// # Errors
///
/// `spacing` is too short for a packet, or the headers do not fit the opcode.
pub fn emit<'a>(
    first: &Headers,
    payload: usize,
    spacing: usize,
    buffer: &'a mut [u8],
) -> Result<impl Iterator<Item = &'a mut [u8]>, EmitError> {
    let mut header = [0; bth::LENGTH];
    first.emit_around(0, &mut header)?;
    let needed = bth::LENGTH + payload;
    if spacing < needed {
        return Err(EmitError::Room {
            needed,
            found: spacing,
        });
    }
    let word = psn_word(&header) & !(Psn::SPACE - 1);
    let mut psn = first.bth.psn;
    Ok(buffer.chunks_exact_mut(spacing).map(move |packet| {
        let (place, rest) = packet.split_at_mut(bth::LENGTH);
        place[..BEGINNING].copy_from_slice(&header[..BEGINNING]);
        place[BEGINNING..].copy_from_slice(&(word | psn.value()).to_be_bytes());
        psn = psn.next();
        &mut rest[..payload]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bth::Bth;
    use crate::ids::Qpn;
    use crate::opcode::Opcode;
    use crate::packet::Extensions;
    use std::vec;
    use std::vec::Vec;

    const PAYLOAD: usize = 256;
    const SPACING: usize = bth::LENGTH + PAYLOAD + icrc::LENGTH;

    fn headers(operation: Operation, psn: u32) -> Headers {
        let opcode = Opcode::new(Service::Rc, operation).unwrap();
        Headers {
            bth: Bth::new(opcode, Qpn::new(0x11), Psn::new(psn)),
            extensions: Extensions::NONE,
        }
    }

    /// Returns packets of one message, each with its own payload and no ICRC.
    fn packets(operation: Operation, psn: u32, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; SPACING * count];
        let headers = headers(operation, psn);
        let payloads = emit(&headers, PAYLOAD, SPACING, &mut bytes).unwrap();
        for (payload, fill) in payloads.zip(1..) {
            payload.fill(fill);
        }
        bytes
    }

    #[test]
    fn emitted_packets_equal_those_made_one_by_one() {
        let together = packets(Operation::WriteMiddle, 0x00ff_fffe, 4);
        for (index, one) in together.as_chunks::<SPACING>().0.iter().enumerate() {
            let mut alone = [0; SPACING];
            let psn = Psn::new(0x00ff_fffe).plus(index as u32).value();
            headers(Operation::WriteMiddle, psn)
                .emit_around(PAYLOAD, &mut alone)
                .unwrap()
                .fill(index as u8 + 1);
            assert_eq!(*one, alone);
        }
        assert!(
            emit(
                &headers(Operation::WriteMiddle, 0),
                PAYLOAD,
                PAYLOAD,
                &mut [0; SPACING]
            )
            .is_err()
        );
    }

    #[test]
    fn middle_packets_are_found_with_their_payloads() {
        for operation in [Operation::SendMiddle, Operation::WriteMiddle] {
            let bytes = packets(operation, 0x00ff_fffe, 4);
            let middles = Middles::at_front(&bytes, SPACING).unwrap();
            assert_eq!((middles.count(), middles.ack_request()), (4, false));
            assert_eq!(middles.length(), 4 * PAYLOAD as u32);
            let first = Packet::parse(&bytes[..SPACING - icrc::LENGTH]).unwrap();
            assert_eq!(middles.first_packet(), first);
            let payloads: Vec<&[u8]> = middles.payloads().collect();
            assert_eq!(payloads.len(), 4);
            for (payload, fill) in payloads.into_iter().zip(1..) {
                assert_eq!(payload, [fill; PAYLOAD]);
            }
            assert_eq!(middles.first(3).unwrap().count(), 3);
            assert!(middles.first(1).is_none() && middles.first(5).is_none());
        }
    }

    #[test]
    fn a_packet_that_differs_ends_them() {
        let change = |at: usize, value: u8| {
            let mut bytes = packets(Operation::WriteMiddle, 7, 5);
            bytes[3 * SPACING + at] ^= value;
            Middles::at_front(&bytes, SPACING).map(|middles| middles.count())
        };
        // Opcode, solicited event, partition, congestion, destination, PSN.
        for at in [0, 1, 3, 4, 7, 9, 11] {
            assert_eq!(change(at, 0x40), Some(3), "{at}");
        }
        assert_eq!(change(8, 0x40), Some(5), "reserved");
        assert_eq!(change(20, 1), Some(5), "payload");
        assert_eq!(change(8, 0x80), Some(4), "acknowledgement request");
    }

    #[test]
    fn other_packets_are_none() {
        for operation in [
            Operation::SendFirst,
            Operation::SendLast,
            Operation::ReadResponseMiddle,
        ] {
            let bytes = packets(operation, 7, 4);
            assert!(
                Middles::at_front(&bytes, SPACING).is_none(),
                "{operation:?}"
            );
        }
        let mut bytes = packets(Operation::WriteMiddle, 7, 4);
        assert!(Middles::at_front(&bytes[..2 * SPACING - 1], SPACING).is_none());
        for spacing in 0..bth::LENGTH + icrc::LENGTH {
            assert!(Middles::at_front(&bytes, spacing).is_none(), "{spacing}");
        }
        bytes[8] |= 0x80;
        assert!(Middles::at_front(&bytes, SPACING).is_none());
        for pad in 1..=3 {
            let mut bytes = packets(Operation::WriteMiddle, 7, 4);
            for packet in bytes.as_chunks_mut::<SPACING>().0 {
                packet[1] |= pad << 4;
            }
            assert!(
                Middles::at_front(&bytes, SPACING).is_none(),
                "{pad} bytes of padding"
            );
        }
    }
}
