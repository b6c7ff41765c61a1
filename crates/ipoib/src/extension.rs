//! Extension headers of IPv6 (RFC 8200 section 4).

use crate::ip::IPV6_HEADER;

/// Numbers of the headers.
pub const HOP_BY_HOP: u8 = 0;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const AUTHENTICATION: u8 = 51;
pub const DESTINATION_OPTIONS: u8 = 60;
/// Length of a fragment header in bytes.
pub const FRAGMENT_HEADER: usize = 8;
/// Most headers that are read. RFC 8200 has each of them once, and destination options twice.
const MOST: usize = 16;

/// The protocol behind the extension headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// Its number.
    pub protocol: u8,
    /// Where its message starts; `None` in a later fragment, which has the middle or the end of a
    /// message.
    pub at: Option<usize>,
}

/// Returns the number of the header behind one at `at`, and where it starts. The header must state
/// its length in units of eight bytes, as all but the fragment and the authentication header do.
pub fn next(packet: &[u8], at: usize) -> Option<(u8, usize)> {
    let [next, units] = *packet.get(at..)?.first_chunk()?;
    Some((next, at + 8 * (usize::from(units) + 1)))
}

/// Returns the protocol of an IPv6 packet. Returns `None` if the packet ends within its headers, or
/// has more of them than any sender needs.
pub fn upper(packet: &[u8]) -> Option<Upper> {
    let (mut protocol, mut at) = (*packet.get(6)?, IPV6_HEADER);
    for _ in 0..=MOST {
        (protocol, at) = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => next(packet, at)?,
            FRAGMENT => {
                let header = packet.get(at..)?.first_chunk::<FRAGMENT_HEADER>()?;
                let protocol = header[0];
                if u16::from_be_bytes([header[2], header[3]]) & !7 != 0 {
                    return Some(Upper { protocol, at: None });
                }
                (protocol, at + FRAGMENT_HEADER)
            }
            AUTHENTICATION => {
                let [next, words] = *packet.get(at..)?.first_chunk()?;
                // RFC 4302 section 2.2: units of four bytes, less two.
                (next, at + 4 * (usize::from(words) + 2))
            }
            _ => {
                let at = Some(at).filter(|at| *at <= packet.len())?;
                return Some(Upper {
                    protocol,
                    at: Some(at),
                });
            }
        };
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns an IPv6 packet with these extension headers in front of a message. Each header has
    /// its number and its bytes, the first of which is overwritten with the number that follows.
    pub fn packet(headers: &[(u8, Vec<u8>)], protocol: u8, message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; IPV6_HEADER];
        packet[0] = 0x60;
        packet[8] = 0xfd;
        packet[24] = 0xfd;
        packet[39] = 2;
        let mut at = 6;
        for (number, bytes) in headers {
            packet[at] = *number;
            at = packet.len();
            packet.extend_from_slice(bytes);
        }
        packet[at] = protocol;
        packet.extend_from_slice(message);
        let payload = (packet.len() - IPV6_HEADER) as u16;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        packet
    }

    /// A header of this number and of `units` units of eight bytes.
    pub fn header(number: u8, units: u8) -> (u8, Vec<u8>) {
        let length = match number {
            FRAGMENT => FRAGMENT_HEADER,
            _ => 8 * usize::from(units),
        };
        let mut bytes = vec![0; length];
        bytes[1] = match number {
            FRAGMENT => 0,
            AUTHENTICATION => units * 2 - 2,
            _ => units - 1,
        };
        (number, bytes)
    }

    #[test]
    fn a_later_fragment_has_no_start_of_a_message() {
        let mut fragment = header(FRAGMENT, 1);
        fragment.1[3] = 8;
        let packet = packet(&[header(HOP_BY_HOP, 1), fragment], 58, &[1, 2, 3]);
        let upper = upper(&packet).unwrap();
        assert_eq!((upper.protocol, upper.at), (58, None));
    }

    #[test]
    fn packets_of_too_many_headers_and_cut_ones_have_no_protocol() {
        let chain = |count| packet(&vec![header(DESTINATION_OPTIONS, 1); count], 58, &[128]);
        assert!(upper(&chain(MOST)).is_some());
        assert_eq!(upper(&chain(MOST + 1)), None);
        let whole = packet(&[header(ROUTING, 3)], 58, &[]);
        assert!(upper(&whole).is_some());
        assert_eq!(upper(&whole[..whole.len() - 1]), None);
        assert_eq!(upper(&[0x60; 6]), None);
    }

    proptest! {
        #[test]
        fn the_message_is_found_behind_any_headers(
            chain in prop::collection::vec((0usize..5, 1u8..5), 0..MOST), message: Vec<u8>,
        ) {
            let numbers = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS];
            let chain = chain.into_iter().map(|(at, units)| header(numbers[at], units));
            let packet = packet(&chain.collect::<Vec<_>>(), 17, &message);
            let at = Some(packet.len() - message.len());
            prop_assert_eq!(upper(&packet), Some(Upper { protocol: 17, at }));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, chain: Vec<(u8, u8)>) {
            let _ = upper(&bytes);
            let mut packet = vec![0; IPV6_HEADER];
            packet.extend(chain.into_iter().flat_map(|(next, units)| [next, units]));
            if let Some(Upper { at: Some(at), .. }) = upper(&packet) {
                prop_assert!(at <= packet.len());
            }
        }
    }
}
