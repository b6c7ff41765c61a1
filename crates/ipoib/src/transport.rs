//! TCP and UDP headers in IP packets, as far as cutting and joining packets need them.

use crate::checksum;
use crate::extension::{self, DESTINATION_OPTIONS, HOP_BY_HOP};
use crate::ip::{IPV4_HEADER, IPV6_HEADER};

/// Numbers of the protocols.
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
/// Lengths of the shortest headers in bytes.
pub const TCP_HEADER: usize = 20;
pub const UDP_HEADER: usize = 8;
/// Offsets of the checksums in their headers.
pub const TCP_CHECKSUM: usize = 16;
pub const UDP_CHECKSUM: usize = 6;

/// Returns the length of a packet's IP header if it has no options or extensions and is no
/// fragment, and the number of its transport protocol.
pub fn plain(packet: &[u8]) -> Option<(usize, u8)> {
    match packet.first()? {
        0x45 if packet.len() >= IPV4_HEADER => {
            // "More fragments", and the offset of a fragment.
            let is_fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
            (!is_fragment).then_some((IPV4_HEADER, packet[9]))
        }
        0x60..=0x6f if packet.len() >= IPV6_HEADER => Some((IPV6_HEADER, packet[6])),
        _ => None,
    }
}

/// Returns the length of a packet's IP header with its options or extensions if it is no fragment,
/// and the number of its transport protocol. IPv6 packets with a routing header have none: the
/// checksum covers another destination.
pub fn find(packet: &[u8]) -> Option<(usize, u8)> {
    if is_ipv4(packet) {
        let header = packet.first_chunk::<IPV4_HEADER>()?;
        let is_fragment = header[6] & 0x3f != 0 || header[7] != 0;
        let length = usize::from(header[0] & 15) * 4;
        let is_whole = (IPV4_HEADER..=packet.len()).contains(&length);
        return (is_whole && !is_fragment).then_some((length, header[9]));
    }
    let (mut length, mut protocol) = plain(packet)?;
    while matches!(protocol, HOP_BY_HOP | DESTINATION_OPTIONS) {
        (protocol, length) = extension::next(packet, length)?;
    }
    (length <= packet.len()).then_some((length, protocol))
}

/// Returns whether a packet states the version 4.
pub fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// Returns the sum of the pseudo header of a packet whose IP header has this length.
pub fn pseudo_sum(packet: &[u8], ip_header: usize, protocol: u8) -> u64 {
    pseudo_sum_of(packet, ip_header, protocol, packet.len())
}

fn pseudo_sum_of(front: &[u8], ip_header: usize, protocol: u8, length: usize) -> u64 {
    let addresses = match is_ipv4(front) {
        true => &front[12..20],
        false => &front[8..40],
    };
    let length = (length - ip_header) as u64;
    checksum::add(0, addresses) + length + u64::from(protocol)
}

/// Writes the lengths in an IP header, and the checksum of IPv4.
pub fn set_length(packet: &mut [u8], ip_header: usize) {
    let length = packet.len();
    set_length_of(packet, ip_header, length);
}

/// Does so for a packet of a length, of which `front` has the IP header.
pub fn set_length_of(front: &mut [u8], ip_header: usize, length: usize) {
    if is_ipv4(front) {
        front[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        front[10..12].fill(0);
        let sum = checksum::fold(checksum::add(0, &front[..ip_header]));
        front[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let payload = (length - IPV6_HEADER) as u16;
        front[4..6].copy_from_slice(&payload.to_be_bytes());
    }
}

/// Computes the checksum of a transport's message and writes it.
#[cfg(test)]
pub fn set_checksum(packet: &mut [u8], ip_header: usize, protocol: u8, offset: usize) {
    set_checksum_of(packet, &[], ip_header, (protocol, offset));
}

/// Computes the checksum of a transport's message and writes it, in a packet in two parts: its
/// headers, whose length is even, and its data.
pub fn set_checksum_of(
    front: &mut [u8],
    data: &[u8],
    ip_header: usize,
    (protocol, offset): (u8, usize),
) {
    let at = ip_header + offset;
    front[at..at + 2].fill(0);
    let length = front.len() + data.len();
    let sum = pseudo_sum_of(front, ip_header, protocol, length);
    let sum = checksum::add(sum, &front[ip_header..]);
    let sum = checksum::fold(checksum::add(sum, data));
    // Zero means no checksum in UDP.
    let sum = if sum == 0 && protocol == UDP {
        0xffff
    } else {
        sum
    };
    front[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns whether the checksum of a transport's message is right, in a packet in two parts: its
/// headers, whose length is even, and its data.
pub fn has_right_checksum_of(front: &[u8], data: &[u8], ip_header: usize, protocol: u8) -> bool {
    let sum = pseudo_sum_of(front, ip_header, protocol, front.len() + data.len());
    let sum = checksum::add(sum, &front[ip_header..]);
    checksum::fold(checksum::add(sum, data)) == 0
}

/// Returns whether the checksum of a transport's message is right.
#[cfg(test)]
pub fn has_right_checksum(packet: &[u8], ip_header: usize, protocol: u8) -> bool {
    has_right_checksum_of(packet, &[], ip_header, protocol)
}
