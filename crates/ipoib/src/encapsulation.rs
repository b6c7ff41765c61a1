//! The header in front of every packet: 4 bytes (RFC 4391 section 6).

/// Length in bytes.
pub const LENGTH: usize = 4;
/// A reserved byte and its bit which say that the checksum of the transport covers the pseudo
/// header only, as a TUN device gives it. Only connections of ends that agreed on it have it.
const OFFLOADS: usize = 3;
const PARTIAL: u8 = 1;

/// The protocol of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// IPv4.
    Ipv4,
    /// ARP.
    Arp,
    /// IPv6.
    Ipv6,
    /// Messages that set connections up.
    Connection,
}

impl Protocol {
    const ALL: [Protocol; 4] = [
        Protocol::Ipv4,
        Protocol::Arp,
        Protocol::Ipv6,
        Protocol::Connection,
    ];

    fn ether_type(self) -> u16 {
        match self {
            Protocol::Ipv4 => 0x0800,
            Protocol::Arp => 0x0806,
            Protocol::Ipv6 => 0x86dd,
            // IEEE 802's EtherType for local experiments.
            Protocol::Connection => 0x88b5,
        }
    }

    /// Returns the header of a packet of this protocol.
    pub fn header(self) -> [u8; LENGTH] {
        let [high, low] = self.ether_type().to_be_bytes();
        [high, low, 0, 0]
    }
}

/// Returns a header with the mark of a partial checksum.
pub fn marked(header: [u8; LENGTH]) -> [u8; LENGTH] {
    let mut header = header;
    header[OFFLOADS] |= PARTIAL;
    header
}

/// Returns whether a message has the mark of a partial checksum.
pub fn is_marked(message: &[u8]) -> bool {
    message
        .get(OFFLOADS)
        .is_some_and(|byte| byte & PARTIAL != 0)
}

/// The reason why a datagram has no usable header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is shorter than the header.
    Short,
    /// Its EtherType is none of IP over InfiniBand.
    UnknownType,
}

/// Splits a datagram into protocol and packet. The reserved bytes are ignored, as the RFC requires.
///
/// # Errors
///
/// Fails if the datagram is too short or of another protocol.
pub fn parse(datagram: &[u8]) -> Result<(Protocol, &[u8]), Unusable> {
    let Some((header, packet)) = datagram.split_first_chunk::<LENGTH>() else {
        return Err(Unusable::Short);
    };
    let ether_type = u16::from_be_bytes([header[0], header[1]]);
    Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.ether_type() == ether_type)
        .map(|protocol| (protocol, packet))
        .ok_or(Unusable::UnknownType)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_have_the_types_of_the_rfc() {
        assert_eq!(Protocol::Ipv4.header(), [0x08, 0x00, 0, 0]);
        assert_eq!(Protocol::Arp.header(), [0x08, 0x06, 0, 0]);
        assert_eq!(Protocol::Ipv6.header(), [0x86, 0xdd, 0, 0]);
    }

    #[test]
    fn reserved_bytes_are_ignored() {
        assert_eq!(parse(&[8, 0, 1, 2, 9]), Ok((Protocol::Ipv4, &[9][..])));
    }

    #[test]
    fn short_and_unknown_datagrams_have_different_errors() {
        assert_eq!(parse(&[8, 0, 0]), Err(Unusable::Short));
        assert_eq!(parse(&[0x88, 0xcc, 0, 0]), Err(Unusable::UnknownType));
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(packet: Vec<u8>, number in 0usize..4) {
            let protocol = Protocol::ALL[number];
            let mut datagram = protocol.header().to_vec();
            datagram.extend_from_slice(&packet);
            prop_assert_eq!(parse(&datagram), Ok((protocol, &packet[..])));
        }
    }
}
