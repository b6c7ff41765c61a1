//! ARP messages with hardware addresses of 20 bytes (RFC 4391 section 9.2, RFC 826).

use std::net::Ipv4Addr;

use crate::hardware_address::{self, HardwareAddress};

/// Hardware type of InfiniBand (RFC 4391 section 9.2).
const INFINIBAND: u16 = 32;
const IPV4: u16 = 0x0800;
/// Length in bytes: four fields, then hardware and IP addresses of sender and target.
pub const LENGTH: usize = 8 + 2 * (hardware_address::LENGTH + 4);

/// The effect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Asks for the target's hardware address.
    Request,
    /// States the sender's hardware address.
    Reply,
}

/// An ARP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its operation.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender: HardwareAddress,
    /// IP address of the sender; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; zeros in a request.
    pub target: [u8; hardware_address::LENGTH],
    /// IP address of the target.
    pub target_ip: Ipv4Addr,
}

impl Message {
    /// Reads a message. Bytes behind it are ignored.
    ///
    /// Returns `None` if it is too short, of other kinds of addresses or another operation, or if
    /// the sender's IP address is not that of a single interface.
    pub fn parse(packet: &[u8]) -> Option<Message> {
        let packet = packet.first_chunk::<LENGTH>()?;
        let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let lengths = [packet[4], packet[5]];
        if word(0) != INFINIBAND || word(2) != IPV4 || lengths != [20, 4] {
            return None;
        }
        let operation = match word(6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        let ip = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| packet[at + i]));
        let hardware = |at: usize| packet[at..].first_chunk::<20>();
        let message = Message {
            operation,
            sender: HardwareAddress::parse(hardware(8)?),
            sender_ip: ip(28),
            target: *hardware(32)?,
            target_ip: ip(52),
        };
        let is_one = !message.sender_ip.is_multicast() && !message.sender_ip.is_broadcast();
        is_one.then_some(message)
    }

    /// Returns the message's bytes.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..2].copy_from_slice(&INFINIBAND.to_be_bytes());
        bytes[2..4].copy_from_slice(&IPV4.to_be_bytes());
        bytes[4..6].copy_from_slice(&[20, 4]);
        bytes[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        bytes[8..28].copy_from_slice(&self.sender.bytes());
        bytes[28..32].copy_from_slice(&self.sender_ip.octets());
        bytes[32..52].copy_from_slice(&self.target);
        bytes[52..].copy_from_slice(&self.target_ip.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(hardware: [u8; 20], sender: u32, target: [u8; 20], target_ip: u32) -> Message {
        Message {
            operation: Operation::Request,
            sender: HardwareAddress::parse(&hardware),
            sender_ip: Ipv4Addr::from_bits(sender),
            target,
            target_ip: Ipv4Addr::from_bits(target_ip),
        }
    }

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(
            hardware: [u8; 20], sender in 0u32..0xe000_0000, target: [u8; 20], target_ip: u32,
            reply: bool,
        ) {
            let mut message = message(hardware, sender, target, target_ip);
            message.operation = if reply { Operation::Reply } else { Operation::Request };
            prop_assert_eq!(Message::parse(&message.bytes()), Some(message));
        }

        #[test]
        fn any_bytes_are_read_or_refused(packet: Vec<u8>) {
            let read = Message::parse(&packet);
            prop_assert!(read.is_none() || packet.len() >= LENGTH);
        }
    }

    #[test]
    fn messages_of_other_kinds_are_refused() {
        let good = message([1; 20], 0x0a00_0001, [0; 20], 0x0a00_0002).bytes();
        assert!(Message::parse(&good).is_some());
        assert_eq!(Message::parse(&good[..LENGTH - 1]), None);
        // Hardware type, protocol, lengths, operation, sender in a multicast range.
        for (at, value) in [(1, 1), (2, 9), (4, 6), (5, 16), (7, 3), (28, 224)] {
            let mut wrong = good;
            wrong[at] = value;
            assert_eq!(Message::parse(&wrong), None, "byte {at}");
        }
    }

    #[test]
    fn the_fields_have_the_offsets_of_the_rfc() {
        let bytes = message([7; 20], 0x0a00_0001, [9; 20], 0x0a00_0002).bytes();
        assert_eq!(bytes[..8], [0, 32, 8, 0, 20, 4, 0, 1]);
        assert_eq!(bytes[28..32], [10, 0, 0, 1]);
        assert_eq!(bytes[52..], [10, 0, 0, 2]);
    }
}
