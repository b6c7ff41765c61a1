//! The fields of IP packets that decide where they go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Lengths of the fixed headers in bytes.
pub const IPV4_HEADER: usize = 20;
pub const IPV6_HEADER: usize = 40;

/// Addresses of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

/// Returns the addresses of a packet, or `None` if it is no whole IP packet: shorter than its
/// header states, or of another version.
pub fn addresses(packet: &[u8]) -> Option<Addresses> {
    addresses_of(packet, packet.len())
}

/// Returns the addresses of a packet of this length, of which `front` has the first bytes.
pub fn addresses_of(front: &[u8], length: usize) -> Option<Addresses> {
    match front.first()? >> 4 {
        4 => {
            let header = front.first_chunk::<IPV4_HEADER>()?;
            let header_length = usize::from(header[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let is_whole = IPV4_HEADER <= header_length && header_length <= total;
            let at = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| header[at + i]));
            (is_whole && total <= length).then(|| Addresses {
                source: at(12).into(),
                destination: at(16).into(),
            })
        }
        6 => {
            let header = front.first_chunk::<IPV6_HEADER>()?;
            let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let at = |at: usize| {
                let octets = header[at..].first_chunk::<16>();
                octets.map(|octets| Ipv6Addr::from(*octets))
            };
            let addresses = Addresses {
                source: at(8)?.into(),
                destination: at(24)?.into(),
            };
            (IPV6_HEADER + payload <= length).then_some(addresses)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv4(length: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(length)];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet
    }

    #[test]
    fn a_whole_packet_has_addresses() {
        let found = addresses(&ipv4(20)).unwrap();
        assert_eq!(found.source.to_string(), "10.0.0.1");
        assert_eq!(found.destination.to_string(), "10.0.0.2");
        let mut packet = [0; 40];
        packet[0] = 0x60;
        packet[23] = 1;
        packet[39] = 2;
        let found = addresses(&packet).unwrap();
        assert_eq!(found.source.to_string(), "::1");
        assert_eq!(found.destination.to_string(), "::2");
    }

    #[test]
    fn parts_of_packets_and_other_versions_have_none() {
        let whole = ipv4(30);
        assert_eq!(addresses(&whole[..29]), None);
        for first in [0x44, 0x4f, 0x55, 0x00] {
            let mut wrong = whole.clone();
            wrong[0] = first;
            assert_eq!(addresses(&wrong), None, "{first:#x}");
        }
        let mut long = [0; 40];
        (long[0], long[5]) = (0x60, 1);
        assert_eq!(addresses(&long), None);
        assert_eq!(addresses(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(packet: Vec<u8>) {
            let _ = addresses(&packet);
        }
    }
}
