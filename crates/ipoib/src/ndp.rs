//! Neighbour solicitations and advertisements of IPv6 (RFC 4861), with link-layer addresses of 20
//! bytes (RFC 4391 section 9.3).

use std::net::Ipv6Addr;

use crate::checksum;
use crate::hardware_address::{self, HardwareAddress};
use crate::ip::IPV6_HEADER;

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Only packets of the same link have this hop limit.
const HOP_LIMIT: u8 = 255;
/// Bytes before the options: type, code, checksum, flags, target.
const FIXED: usize = 24;
/// Length of the option with a link-layer address in bytes; two are reserved.
const OPTION: usize = 4 + hardware_address::LENGTH;
/// Length of an option in units of eight bytes, as it stands in the option.
const UNITS: u8 = (OPTION / 8) as u8;

/// The effect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks for the target's link-layer address.
    Solicitation,
    /// States the target's link-layer address.
    Advertisement {
        /// Whether it answers a solicitation.
        is_solicited: bool,
        /// Whether it replaces a known address.
        replaces: bool,
    },
}

/// A neighbour solicitation or advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its kind.
    pub kind: Kind,
    /// IP address of the sender; unspecified if it probes for a duplicate of the target.
    pub source: Ipv6Addr,
    /// Destination of the packet.
    pub destination: Ipv6Addr,
    /// The address that the message is about.
    pub target: Ipv6Addr,
    /// Link-layer address: the sender's in a solicitation, the target's in an advertisement.
    pub hardware: Option<HardwareAddress>,
}

/// The result of reading a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// Not a neighbour message.
    Other,
    /// A neighbour message that violates RFC 4861 section 7.1.
    Invalid,
    /// A valid neighbour message.
    Message(Message),
}

/// Reads an IPv6 packet.
pub fn parse(packet: &[u8]) -> Parsed {
    let Some((header, rest)) = packet.split_first_chunk::<IPV6_HEADER>() else {
        return Parsed::Other;
    };
    if header[6] != ICMPV6 || !matches!(rest.first(), Some(&(SOLICITATION | ADVERTISEMENT))) {
        return Parsed::Other;
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let message = rest.get(..length).filter(|_| header[7] == HOP_LIMIT);
    message
        .and_then(|message| valid(header, message))
        .map_or(Parsed::Invalid, Parsed::Message)
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let octets = bytes.get(at..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*octets))
}

fn valid(header: &[u8; IPV6_HEADER], message: &[u8]) -> Option<Message> {
    let (source, destination) = (address(header, 8)?, address(header, 24)?);
    let options = message.get(FIXED..)?;
    let target = address(message, 8)?;
    let is_right = checksum::of_ipv6(source, destination, ICMPV6, message) == 0;
    if !is_right || message[1] != 0 || target.is_multicast() || source.is_multicast() {
        return None;
    }
    let kind = match message[0] {
        SOLICITATION => Kind::Solicitation,
        _ => Kind::Advertisement {
            is_solicited: message[4] & 0x40 != 0,
            replaces: message[4] & 0x20 != 0,
        },
    };
    let hardware = link_layer_address(options, option_type(kind))?;
    let is_consistent = match kind {
        Kind::Solicitation => {
            !source.is_unspecified() || (destination.is_multicast() && hardware.is_none())
        }
        Kind::Advertisement { is_solicited, .. } => {
            !(source.is_unspecified() || is_solicited && destination.is_multicast())
        }
    };
    is_consistent.then_some(Message {
        kind,
        source,
        destination,
        target,
        hardware,
    })
}

/// Type of the option with the link-layer address: that of the source or of the target.
fn option_type(kind: Kind) -> u8 {
    match kind {
        Kind::Solicitation => 1,
        Kind::Advertisement { .. } => 2,
    }
}

/// Returns the link-layer address among the options, if there is one; `None` if an option is
/// empty, cut, or of another length.
fn link_layer_address(options: &[u8], wanted: u8) -> Option<Option<HardwareAddress>> {
    let mut rest = options;
    let mut found = None;
    while let [kind, units, ..] = *rest {
        let length = usize::from(units) * 8;
        let option = rest.get(..length).filter(|_| length > 0)?;
        if kind == wanted {
            let bytes = option
                .get(4..)?
                .first_chunk::<{ hardware_address::LENGTH }>()?;
            found = Some(HardwareAddress::parse(bytes));
        }
        rest = &rest[length..];
    }
    rest.is_empty().then_some(found)
}

impl Message {
    /// Returns the IPv6 packet of the message.
    pub fn packet(&self) -> Vec<u8> {
        let length = FIXED + self.hardware.map_or(0, |_| OPTION);
        let mut message = vec![0; length];
        match self.kind {
            Kind::Solicitation => message[0] = SOLICITATION,
            Kind::Advertisement {
                is_solicited,
                replaces,
            } => {
                message[0] = ADVERTISEMENT;
                message[4] = u8::from(is_solicited) << 6 | u8::from(replaces) << 5;
            }
        }
        message[8..FIXED].copy_from_slice(&self.target.octets());
        if let Some(hardware) = self.hardware {
            message[FIXED..FIXED + 2].copy_from_slice(&[option_type(self.kind), UNITS]);
            message[FIXED + 4..].copy_from_slice(&hardware.bytes());
        }
        let sum = checksum::of_ipv6(self.source, self.destination, ICMPV6, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(length as u16).to_be_bytes());
        packet.extend_from_slice(&[ICMPV6, HOP_LIMIT]);
        packet.extend_from_slice(&self.source.octets());
        packet.extend_from_slice(&self.destination.octets());
        packet.extend_from_slice(&message);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn solicitation() -> Message {
        Message {
            kind: Kind::Solicitation,
            source: "fd00::1".parse().unwrap(),
            destination: "ff02::1:ff00:2".parse().unwrap(),
            target: "fd00::2".parse().unwrap(),
            hardware: Some(HardwareAddress::parse(&[7; 20])),
        }
    }

    /// Changes a byte and corrects the checksum.
    fn changed(at: usize, value: u8) -> Vec<u8> {
        let mut packet = solicitation().packet();
        packet[at] = value;
        packet[42..44].fill(0);
        let (source, destination) = (address(&packet, 8).unwrap(), address(&packet, 24).unwrap());
        let sum = checksum::of_ipv6(source, destination, ICMPV6, &packet[40..]);
        packet[42..44].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn the_option_has_three_units() {
        let packet = solicitation().packet();
        assert_eq!(packet.len(), 40 + 24 + 24);
        assert_eq!(packet[64..68], [1, 3, 0, 0]);
        assert_eq!(packet[68..], [7; 20]);
    }

    #[test]
    fn messages_against_the_rules_are_invalid() {
        assert_eq!(parse(&changed(0, 0x60)), Parsed::Message(solicitation()));
        // Hop limit, code, a multicast target, an option without length, one of another length.
        for (at, value) in [(7, 254), (41, 1), (48, 0xff), (65, 0), (65, 2)] {
            assert_eq!(parse(&changed(at, value)), Parsed::Invalid, "byte {at}");
        }
        let mut wrong = solicitation().packet();
        wrong[43] ^= 1;
        assert_eq!(parse(&wrong), Parsed::Invalid, "checksum");
        let cut = &solicitation().packet()[..80];
        assert_eq!(parse(cut), Parsed::Invalid, "cut");
    }

    #[test]
    fn a_probe_carries_no_address() {
        let mut probe = solicitation();
        probe.source = Ipv6Addr::UNSPECIFIED;
        assert_eq!(parse(&probe.packet()), Parsed::Invalid);
        probe.hardware = None;
        assert_eq!(parse(&probe.packet()), Parsed::Message(probe));
    }

    #[test]
    fn a_solicited_advertisement_has_one_receiver() {
        let mut message = solicitation();
        message.kind = Kind::Advertisement {
            is_solicited: true,
            replaces: true,
        };
        assert_eq!(parse(&message.packet()), Parsed::Invalid);
        message.destination = "fd00::9".parse().unwrap();
        assert_eq!(parse(&message.packet()), Parsed::Message(message));
    }

    #[test]
    fn other_packets_are_not_touched() {
        let mut echo = solicitation().packet();
        echo[40] = 128;
        assert_eq!(parse(&echo), Parsed::Other);
        echo[6] = 17;
        assert_eq!(parse(&echo), Parsed::Other);
        assert_eq!(parse(&[0x60; 39]), Parsed::Other);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            packet: Vec<u8>, options in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = parse(&packet);
            let mut message = solicitation().packet();
            message.truncate(64);
            message.extend_from_slice(&options);
            message[4..6].copy_from_slice(&((24 + options.len()) as u16).to_be_bytes());
            message[42..44].fill(0);
            let [source, destination] = [8, 24].map(|at| address(&message, at).unwrap());
            let sum = checksum::of_ipv6(source, destination, ICMPV6, &message[40..]);
            message[42..44].copy_from_slice(&sum.to_be_bytes());
            prop_assert_ne!(parse(&message), Parsed::Other);
        }

        #[test]
        fn a_message_survives_its_packet(
            hardware: [u8; 20], has_hardware: bool, source: [u8; 16], target: [u8; 16],
            solicited: bool,
        ) {
            let mut message = solicitation();
            message.hardware = has_hardware.then(|| HardwareAddress::parse(&hardware));
            message.source = Ipv6Addr::from(source);
            message.target = Ipv6Addr::from(target);
            message.destination = "fd00::7".parse().unwrap();
            message.kind = Kind::Advertisement { is_solicited: solicited, replaces: !solicited };
            prop_assume!(!message.source.is_multicast() && !message.target.is_multicast());
            prop_assume!(!message.source.is_unspecified());
            prop_assert_eq!(parse(&message.packet()), Parsed::Message(message));
        }
    }
}
