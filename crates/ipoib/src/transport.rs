//! TCP and UDP headers in IP packets, as far as cutting and joining packets need them.

use crate::checksum;
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

/// Returns the sum of the pseudo header of a packet whose IP header has this length.
pub fn pseudo_sum(packet: &[u8], ip_header: usize, protocol: u8) -> u64 {
    let addresses = match ip_header {
        IPV4_HEADER => &packet[12..20],
        _ => &packet[8..40],
    };
    let length = (packet.len() - ip_header) as u64;
    checksum::add(0, addresses) + length + u64::from(protocol)
}

/// Writes the lengths in an IP header, and the checksum of IPv4.
pub fn set_length(packet: &mut [u8], ip_header: usize) {
    let length = packet.len();
    if ip_header == IPV4_HEADER {
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::fold(checksum::add(0, &packet[..IPV4_HEADER]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let payload = (length - IPV6_HEADER) as u16;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
    }
}

/// Computes the checksum of a transport's message and writes it.
pub fn set_checksum(packet: &mut [u8], ip_header: usize, protocol: u8, offset: usize) {
    let at = ip_header + offset;
    packet[at..at + 2].fill(0);
    let sum = pseudo_sum(packet, ip_header, protocol);
    let sum = checksum::fold(checksum::add(sum, &packet[ip_header..]));
    // Zero means no checksum in UDP.
    let sum = if sum == 0 && protocol == UDP {
        0xffff
    } else {
        sum
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns whether the checksum of a transport's message is right.
pub fn has_right_checksum(packet: &[u8], ip_header: usize, protocol: u8) -> bool {
    let sum = pseudo_sum(packet, ip_header, protocol);
    checksum::fold(checksum::add(sum, &packet[ip_header..])) == 0
}
