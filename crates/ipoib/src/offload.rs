//! The header in front of a TUN device's packets with offloads: `struct virtio_net_hdr` (virtio
//! 1.2, section 5.1.6), in the processor's byte order.

/// Length in bytes.
pub const LENGTH: usize = 10;

/// The checksum is partial: it covers the pseudo header only.
const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of long packets; the last bit is for TCP with ECN.
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// A packet that is to be cut into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// TCP over IPv4.
    TcpIpv4,
    /// TCP over IPv6.
    TcpIpv6,
    /// UDP: each segment is a datagram.
    Udp,
}

/// A partial checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Where the sum starts: the transport's header.
    pub start: u16,
    /// Where the checksum stands, from the start.
    pub offset: u16,
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The kind of a long packet, and the length of each segment's data.
    pub long: Option<(Long, u16)>,
    /// The checksum that must be completed.
    pub partial: Option<Partial>,
    /// Length of the headers of a long packet.
    pub headers: u16,
}

impl Header {
    /// Reads a header. Returns `None` for a kind of long packet that was not asked for.
    pub fn parse(bytes: &[u8; LENGTH]) -> Option<Header> {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let long = match bytes[1] & !ECN {
            0 => None,
            TCP_IPV4 => Some(Long::TcpIpv4),
            TCP_IPV6 => Some(Long::TcpIpv6),
            UDP => Some(Long::Udp),
            _ => return None,
        };
        Some(Header {
            long: long.map(|long| (long, word(4))),
            partial: (bytes[0] & NEEDS_CHECKSUM != 0).then(|| Partial {
                start: word(6),
                offset: word(8),
            }),
            headers: word(2),
        })
    }

    /// Returns the header's bytes.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        if let Some(partial) = self.partial {
            bytes[0] = NEEDS_CHECKSUM;
            bytes[6..8].copy_from_slice(&partial.start.to_ne_bytes());
            bytes[8..].copy_from_slice(&partial.offset.to_ne_bytes());
        }
        if let Some((long, length)) = self.long {
            bytes[1] = match long {
                Long::TcpIpv4 => TCP_IPV4,
                Long::TcpIpv6 => TCP_IPV6,
                Long::Udp => UDP,
            };
            bytes[4..6].copy_from_slice(&length.to_ne_bytes());
        }
        bytes[2..4].copy_from_slice(&self.headers.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_kinds_are_refused() {
        let mut bytes = [0; LENGTH];
        assert_eq!(Header::parse(&bytes), Some(Header::default()));
        bytes[1] = 3;
        assert_eq!(Header::parse(&bytes), None);
        bytes[1] = ECN | TCP_IPV6;
        assert_eq!(
            Header::parse(&bytes).unwrap().long,
            Some((Long::TcpIpv6, 0))
        );
    }

    proptest! {
        #[test]
        fn a_header_survives_its_bytes(
            kind in 0usize..4, length: u16, partial: Option<(u16, u16)>, headers: u16,
        ) {
            let kinds = [Long::TcpIpv4, Long::TcpIpv6, Long::Udp];
            let header = Header {
                long: kinds.get(kind).map(|long| (*long, length)),
                partial: partial.map(|(start, offset)| Partial { start, offset }),
                headers,
            };
            prop_assert_eq!(Header::parse(&header.bytes()), Some(header));
        }
    }
}
