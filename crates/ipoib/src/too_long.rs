//! ICMP messages for packets that are longer than a neighbour takes: "fragmentation needed" (RFC
//! 1191 section 4), "packet too big" (RFC 4443 section 3.2). The kernel then learns the MTU of the
//! path and sends shorter packets.

use std::net::IpAddr;

use crate::checksum;
use crate::extension;
use crate::ip::{self, IPV4_HEADER, IPV6_HEADER};
use crate::transport;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PACKET_TOO_BIG: u8 = 2;
/// Length of a message's header in bytes.
const HEADER: usize = 8;
/// Longest messages with their IP headers: RFC 1812 section 4.3.2.3; IPv6's smallest MTU.
const LONGEST_IPV4: usize = 576;
const LONGEST_IPV6: usize = 1280;
/// Messages of errors: bit of ICMPv6's types, and ICMP's types.
const IS_ERROR: fn(u8, u8) -> bool = |protocol, kind| match protocol {
    ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
    ICMPV6 => kind & 0x80 == 0,
    _ => false,
};

/// Returns the message that answers a packet to a neighbour that takes no more than `mtu` bytes, in
/// the neighbour's name. There is none to later fragments of IPv4 and to error messages (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4), nor to packets for groups.
pub fn answer(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let addresses = ip::addresses(packet)?;
    if addresses.destination.is_multicast() || addresses.source.is_unspecified() {
        return None;
    }
    match (addresses.destination, addresses.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = usize::from(packet[0] & 15) * 4;
            let is_later = packet[6] & 0x1f != 0 || packet[7] != 0;
            let kind = *packet.get(length)?;
            if is_later || IS_ERROR(packet[9], kind) {
                return None;
            }
            let cause = &packet[..packet.len().min(LONGEST_IPV4 - IPV4_HEADER - HEADER)];
            let message = message([UNREACHABLE, FRAGMENTATION_NEEDED], mtu, cause);
            let mut answer = vec![0x45, 0xc0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0];
            answer.extend_from_slice(&from.octets());
            answer.extend_from_slice(&to.octets());
            answer.extend_from_slice(&message);
            transport::set_length(&mut answer, IPV4_HEADER);
            let sum = checksum::fold(checksum::add(0, &answer[IPV4_HEADER..]));
            answer[IPV4_HEADER + 2..IPV4_HEADER + 4].copy_from_slice(&sum.to_be_bytes());
            Some(answer)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let upper = extension::upper(packet)?;
            // Errors are too short to be cut into fragments.
            if let (ICMPV6, Some(at)) = (upper.protocol, upper.at)
                && IS_ERROR(ICMPV6, *packet.get(at)?)
            {
                return None;
            }
            let cause = &packet[..packet.len().min(LONGEST_IPV6 - IPV6_HEADER - HEADER)];
            let mut message = message([PACKET_TOO_BIG, 0], mtu, cause);
            let sum = checksum::of_ipv6(from, to, ICMPV6, &message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut answer = vec![0x60, 0, 0, 0, 0, 0, ICMPV6, 64];
            answer.extend_from_slice(&from.octets());
            answer.extend_from_slice(&to.octets());
            answer.extend_from_slice(&message);
            transport::set_length(&mut answer, IPV6_HEADER);
            Some(answer)
        }
        _ => None,
    }
}

/// Returns a message without its checksum. Both versions have the MTU in the last bytes of the
/// header.
fn message([kind, code]: [u8; 2], mtu: usize, cause: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&(mtu as u32).to_be_bytes());
    message.extend_from_slice(cause);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::tests::{header, packet as extended};
    use crate::extension::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    use crate::segment::tests::packet;
    use proptest::prelude::*;

    #[test]
    fn the_sender_is_told_the_mtu_in_the_neighbours_name() {
        let ipv4 = packet(false, transport::UDP, 0, &[7; 6000]);
        let answer = super::answer(&ipv4, 4092).unwrap();
        assert_eq!(answer.len(), LONGEST_IPV4);
        assert_eq!(answer[9], ICMP);
        assert_eq!(answer[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(answer[20..22], [3, 4]);
        assert_eq!(answer[24..28], [0, 0, 0x0f, 0xfc]);
        assert_eq!(answer[28..], ipv4[..548]);
        assert_eq!(checksum::fold(checksum::add(0, &answer[20..])), 0);

        let ipv6 = packet(true, transport::TCP, 0, &[7; 6000]);
        let answer = super::answer(&ipv6, 2044).unwrap();
        assert_eq!(answer.len(), LONGEST_IPV6);
        assert_eq!(answer[40..42], [2, 0]);
        assert_eq!(answer[44..48], [0, 0, 0x07, 0xfc]);
        assert_eq!(answer[48..], ipv6[..1232]);
        let addresses = ip::addresses(&answer).unwrap();
        let (IpAddr::V6(from), IpAddr::V6(to)) = (addresses.source, addresses.destination) else {
            panic!("{addresses:?}");
        };
        assert_eq!(from.octets(), ipv6[24..40]);
        assert_eq!(checksum::of_ipv6(from, to, ICMPV6, &answer[40..]), 0);
    }

    #[test]
    fn errors_later_fragments_and_groups_are_not_answered() {
        let mut later = packet(false, transport::UDP, 0, &[7; 6000]);
        later[7] = 1;
        let mut group = packet(false, transport::UDP, 0, &[7; 6000]);
        group[16] = 224;
        let once = answer(&packet(false, transport::UDP, 0, &[7; 6000]), 4092).unwrap();
        let once_v6 = answer(&packet(true, transport::UDP, 0, &[7; 6000]), 4092).unwrap();
        for packet in [later, group, once, once_v6] {
            assert_eq!(answer(&packet, 100), None);
        }
    }

    #[test]
    fn errors_behind_extension_headers_are_not_answered() {
        let chains = [
            vec![],
            vec![header(HOP_BY_HOP, 1)],
            vec![header(DESTINATION_OPTIONS, 4), header(ROUTING, 3)],
            vec![header(FRAGMENT, 1)],
            vec![header(AUTHENTICATION, 3), header(DESTINATION_OPTIONS, 1)],
        ];
        for chain in chains {
            for (kind, is_answered) in [(1, false), (2, false), (127, false), (128, true)] {
                let packet = extended(&chain, ICMPV6, &[kind; 2000]);
                assert_eq!(
                    answer(&packet, 1280).is_some(),
                    is_answered,
                    "{kind} {chain:?}"
                );
            }
            assert!(answer(&extended(&chain, transport::UDP, &[1; 2000]), 1280).is_some());
        }
        let mut later = header(FRAGMENT, 1);
        later.1[3] = 8;
        assert!(answer(&extended(&[later], ICMPV6, &[1; 2000]), 1280).is_some());
        // The headers end nowhere.
        let cut = extended(&[(HOP_BY_HOP, vec![0, 255])], ICMPV6, &[]);
        assert_eq!(answer(&cut, 1280), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not(
            bytes in prop::collection::vec(any::<u8>(), 0..1400), is_v6: bool, mtu in 0usize..65536,
        ) {
            let mut bytes = bytes;
            let length = bytes.len();
            if let Some(header) = bytes.first_chunk_mut::<6>() {
                let (at, stated) = if is_v6 { (4, length - 40.min(length)) } else { (2, length) };
                header[0] = if is_v6 { 0x60 } else { 0x45 };
                header[at..at + 2].copy_from_slice(&(stated as u16).to_be_bytes());
            }
            if let Some(answer) = answer(&bytes, mtu) {
                prop_assert!(ip::addresses(&answer).is_some());
            }
        }
    }
}
