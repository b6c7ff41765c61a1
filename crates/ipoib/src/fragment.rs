//! Cuts IP packets that are longer than a datagram takes into fragments (RFC 791 section 3.2, RFC
//! 8200 section 4.5).

use crate::extension::{self, FRAGMENT, FRAGMENT_HEADER, HOP_BY_HOP, ROUTING};
use crate::ip::{IPV4_HEADER, IPV6_HEADER};
use crate::transport;

/// "Don't fragment" and "more fragments" in the first byte of IPv4's flags.
const DONT: u8 = 0x40;
const MORE: u8 = 0x20;
/// End of the options of IPv4, and the one without an effect.
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
/// The bit of an option's type that has it copied into all fragments.
const COPIED: u8 = 0x80;

/// Returns whether a whole IP packet may be cut on its way: IPv4 without "don't fragment".
pub fn is_permitted(packet: &[u8]) -> bool {
    transport::is_ipv4(packet) && packet.get(6).is_some_and(|flags| flags & DONT == 0)
}

/// Cuts a whole IP packet into fragments of at most `mtu` bytes, as its source does; `number`
/// identifies the fragments of an IPv6 packet. Fragments can be cut again. Returns `None` if the
/// headers leave no space for data.
pub fn cut(packet: &[u8], mtu: usize, number: u32) -> Option<Vec<Vec<u8>>> {
    if transport::is_ipv4(packet) {
        cut_ipv4(packet, mtu)
    } else {
        cut_ipv6(packet, mtu, number)
    }
}

/// Returns the data of each fragment: its start, its end, and whether more follow.
fn parts(length: usize, most: usize) -> Option<impl Iterator<Item = (usize, usize, bool)>> {
    // Offsets have units of eight bytes.
    let most = most / 8 * 8;
    let starts = (most > 0).then(|| (0..length).step_by(most))?;
    Some(starts.map(move |start| {
        let end = length.min(start + most);
        (start, end, end < length)
    }))
}

fn cut_ipv4(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let header = packet.first_chunk::<IPV4_HEADER>()?;
    let length = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let (header, data) = packet.get(..total)?.split_at_checked(length)?;
    if header.len() < IPV4_HEADER {
        return None;
    }
    let stated = u16::from_be_bytes([header[6] & 0x1f, header[7]]);
    let had_more = header[6] & MORE != 0;
    let first = usize::from(stated) * 8;
    let fragments = parts(data.len(), mtu.checked_sub(length)?)?.map(|(start, end, has_more)| {
        let mut fragment = header.to_vec();
        if start > 0 {
            blank_options(&mut fragment[IPV4_HEADER..]);
        }
        fragment.extend_from_slice(&data[start..end]);
        let offset = ((first + start) / 8) as u16;
        let [high, low] = offset.to_be_bytes();
        fragment[6] = high & 0x1f | if has_more || had_more { MORE } else { 0 };
        fragment[7] = low;
        transport::set_length(&mut fragment, length);
        fragment
    });
    Some(fragments.collect())
}

/// Overwrites the options that only the first fragment has.
fn blank_options(mut options: &mut [u8]) {
    while let Some(&kind) = options.first() {
        let length = match kind {
            END_OF_OPTIONS => return,
            NO_OPERATION => 1,
            _ => options.get(1).map_or(0, |length| usize::from(*length)),
        };
        if length == 0 || length > options.len() {
            return;
        }
        let (option, rest) = options.split_at_mut(length);
        if kind & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        options = rest;
    }
}

fn cut_ipv6(packet: &[u8], mtu: usize, number: u32) -> Option<Vec<Vec<u8>>> {
    let fixed = packet.first_chunk::<IPV6_HEADER>()?;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let packet = packet.get(..IPV6_HEADER + payload)?;
    // The byte that states the type of the header behind the unfragmentable part.
    let (mut at, mut length) = (6, IPV6_HEADER);
    while matches!(packet[at], HOP_BY_HOP | ROUTING) {
        (at, length) = (length, extension::next(packet, length)?.1);
    }
    let (front, mut data) = packet.split_at_checked(length)?;
    let mut own = [0; FRAGMENT_HEADER];
    own[0] = front[at];
    own[4..].copy_from_slice(&number.to_be_bytes());
    if front[at] == FRAGMENT {
        let (header, rest) = data.split_first_chunk::<FRAGMENT_HEADER>()?;
        (own, data) = (*header, rest);
    }
    let stated = u16::from_be_bytes([own[2], own[3]]);
    let (first, had_more) = (usize::from(stated & !7), stated & 1 != 0);
    let most = mtu.checked_sub(length + FRAGMENT_HEADER)?;
    let fragments = parts(data.len(), most)?.map(|(start, end, has_more)| {
        let mut fragment = front.to_vec();
        fragment[at] = FRAGMENT;
        let offset = (first + start) as u16 | u16::from(has_more || had_more);
        let mut header = own;
        header[2..4].copy_from_slice(&offset.to_be_bytes());
        fragment.extend_from_slice(&header);
        fragment.extend_from_slice(&data[start..end]);
        transport::set_length(&mut fragment, IPV6_HEADER);
        fragment
    });
    Some(fragments.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::ip;
    use crate::segment::tests::packet;
    use proptest::prelude::*;

    /// Returns the data of fragments, joined by their offsets, and whether more must follow.
    fn joined(fragments: &[Vec<u8>], front: usize) -> (Vec<u8>, bool) {
        let (mut data, mut has_more) = (Vec::new(), true);
        for fragment in fragments {
            assert!(ip::addresses(fragment).is_some());
            let (offset, more, skip) = if transport::is_ipv4(fragment) {
                let offset = u16::from_be_bytes([fragment[6] & 0x1f, fragment[7]]);
                (usize::from(offset) * 8, fragment[6] & MORE != 0, front)
            } else {
                let word = u16::from_be_bytes([fragment[front + 2], fragment[front + 3]]);
                (usize::from(word & !7), word & 1 != 0, front + 8)
            };
            assert!(has_more);
            assert_eq!(offset, data.len());
            data.extend_from_slice(&fragment[skip..]);
            has_more = more;
        }
        (data, has_more)
    }

    #[test]
    fn only_ipv4_without_dont_fragment_may_be_cut_on_its_way() {
        let mut ipv4 = packet(false, transport::UDP, 0, &[7; 100]);
        assert!(is_permitted(&ipv4));
        ipv4[6] = DONT;
        assert!(!is_permitted(&ipv4));
        assert!(!is_permitted(&packet(true, transport::UDP, 0, &[7; 100])));
    }

    #[test]
    fn later_fragments_have_the_copied_options_only() {
        let mut whole = packet(false, transport::UDP, 0, &[7; 100]);
        // Record route (not copied), router alert (copied).
        let options = [7, 3, 4, 0x94, 4, 0, 0, 0];
        whole.splice(20..20, options);
        whole[0] = 0x47;
        transport::set_length(&mut whole, 28);
        let all = cut(&whole, 68, 0).unwrap();
        assert_eq!(all[0][20..28], options);
        assert_eq!(all[1][20..28], [1, 1, 1, 0x94, 4, 0, 0, 0]);
    }

    #[test]
    fn headers_without_space_for_data_are_refused() {
        let ipv4 = packet(false, transport::UDP, 0, &[7; 100]);
        let ipv6 = packet(true, transport::UDP, 0, &[7; 100]);
        assert_eq!(cut(&ipv4, 27, 0), None);
        assert_eq!(cut(&ipv6, 55, 0), None);
        assert!(cut(&ipv4, 28, 0).is_some() && cut(&ipv6, 56, 0).is_some());
        assert_eq!(cut(&[], 1000, 0), None);
    }

    proptest! {
        #[test]
        fn fragments_have_all_data_and_can_be_cut_again(
            is_v6: bool, data in prop::collection::vec(any::<u8>(), 1..9000), mtu in 68usize..3000,
            again in 68usize..200, number: u32,
        ) {
            let whole = packet(is_v6, transport::UDP, 0, &data);
            let front = if is_v6 { 40 } else { 20 };
            let all = cut(&whole, mtu, number).unwrap();
            for one in &all {
                prop_assert!(one.len() <= mtu);
                let sum = || checksum::fold(checksum::add(0, &one[..20]));
                prop_assert!(is_v6 || sum() == 0);
            }
            prop_assert_eq!(joined(&all, front), (whole[front..].to_vec(), false));
            let mut twice = Vec::new();
            for one in &all {
                twice.extend(cut(one, again, number ^ 1).unwrap());
            }
            prop_assert_eq!(joined(&twice, front), (whole[front..].to_vec(), false));
            if is_v6 {
                prop_assert!(twice.iter().all(|one| one[44..48] == number.to_be_bytes()));
            }
        }

        #[test]
        fn any_bytes_are_cut_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..400), mtu in 0usize..200,
            first in 0u8..3,
        ) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = [*byte, 0x45, 0x60][usize::from(first)];
            }
            if let Some(all) = cut(&bytes, mtu, 1) {
                prop_assert!(all.iter().all(|one| one.len() <= mtu));
            }
        }
    }
}
