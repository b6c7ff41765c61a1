//! The invariant CRC (specification 7.8.1, annex A17.3.3): CRC-32 over all fields that do not
//! change in transit.
//!
//! It begins with eight bytes of ones in place of the link header, which RoCEv2 does not have, and
//! replaces by ones the fields that routers change: type of service or traffic class, time to live
//! or hop limit, flow label, the checksums of IPv4 and UDP, and the congestion bits of the BTH. It
//! is stored least significant byte first.
//!
//! **The identification.** Over IPv4 the ICRC also covers the identification, which a UDP socket
//! can neither set nor read. Linux sends 0 for a datagram that must not be fragmented from an
//! unconnected socket, and counts up from 0 within the segments of one send. [`identification`]
//! recovers the value of other senders: a CRC is linear, so of the 2^32 possible differences
//! between a received ICRC and the one computed with identification 0, exactly 2^16 result from an
//! identification. A packet whose identification was recovered is thus protected by the remaining
//! 16 bits.

use crc32fast::Hasher;

use crate::bth;
use crate::cursor::Writer;
use crate::ip::{self, Ipv4, Ipv6};
use crate::roce::{Network, Route};
use crate::udp::{self, Udp};

/// Length of an ICRC in bytes.
pub const LENGTH: usize = 4;

/// Offset of the BTH byte with the congestion bits.
const CONGESTION: usize = 4;
const LINK_HEADER: usize = 8;
const MOST_MASKED: usize = LINK_HEADER + ip::V6_LENGTH + udp::LENGTH + bth::LENGTH;

/// Returns the ICRC of a packet (BTH to last pad byte), using the identification in `route`.
///
/// Lengths that exceed the fields of IP and UDP wrap, as they would on the wire; [`crate::roce`]
/// refuses such packets.
pub fn compute(route: &Route, packet: &[u8]) -> u32 {
    let mut masked = [0xff; MOST_MASKED];
    let (first, rest) = packet.split_at(packet.len().min(bth::LENGTH));
    let length = LINK_HEADER + route.headers_length() + first.len();
    if let Ok(mut writer) = Writer::with_room(&mut masked[LINK_HEADER..], length - LINK_HEADER) {
        write_masked(route, packet.len(), &mut writer);
        writer.put(first);
    }
    if first.len() > CONGESTION {
        masked[length - first.len() + CONGESTION] = 0xff;
    }
    let mut hasher = Hasher::new();
    hasher.update(&masked[..length]);
    hasher.update(rest);
    hasher.finalize()
}

/// Computes the ICRCs of packets on one route. Packets that follow each other mostly begin alike,
/// so it keeps the CRC up to the word with the PSN, for identification 0.
#[derive(Debug, Clone)]
pub struct Series {
    route: Route,
    length: usize,
    beginning: [u8; BEGINNING],
    crc: u32,
}

/// Bytes of the BTH before the word with the PSN.
const BEGINNING: usize = 8;
/// x^n for the n bits from the IPv4 identification to the word with the PSN: the rest of the IPv4
/// header, UDP, the beginning of the BTH, and the 32 zero bits that a CRC appends.
const BEHIND_IDENTIFICATION: u32 = polynomial::power(8 * (14 + udp::LENGTH + BEGINNING + 4));

impl Series {
    /// Returns a series of packets on `route`, whose identification is ignored.
    pub fn new(route: &Route) -> Self {
        Self {
            route: route.with_identification(0),
            length: 0,
            beginning: [0; BEGINNING],
            crc: 0,
        }
    }

    /// Returns the route, with identification 0.
    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the ICRC of a packet (BTH to last pad byte): [`compute`] with this identification.
    pub fn compute(&mut self, identification: u16, packet: &[u8]) -> u32 {
        let Some((beginning, rest)) = packet.split_first_chunk::<BEGINNING>() else {
            return compute(&self.route.with_identification(identification), packet);
        };
        if self.length != packet.len() || self.beginning != *beginning {
            self.begin(packet.len(), *beginning);
        }
        let mut crc = self.crc;
        if let (Network::V4(_), 1..) = (self.route.network, identification) {
            crc ^= polynomial::multiply(in_register(identification), BEHIND_IDENTIFICATION);
        }
        let mut hasher = Hasher::new_with_initial(crc);
        hasher.update(rest);
        hasher.finalize()
    }

    fn begin(&mut self, length: usize, beginning: [u8; BEGINNING]) {
        let mut masked = [0xff; MOST_MASKED];
        let headers = self.route.headers_length();
        let end = LINK_HEADER + headers + BEGINNING;
        if let Ok(mut writer) = Writer::with_room(&mut masked[LINK_HEADER..], end - LINK_HEADER) {
            write_masked(&self.route, length, &mut writer);
            writer.put(&beginning);
        }
        masked[LINK_HEADER + headers + CONGESTION] = 0xff;
        self.length = length;
        self.beginning = beginning;
        self.crc = crc32fast::hash(&masked[..end]);
    }
}

/// Writes IP and UDP headers with ones in the fields that change in transit.
fn write_masked(route: &Route, packet: usize, writer: &mut Writer<'_>) {
    let lengths = route.lengths(packet + LENGTH);
    match route.network {
        Network::V4(network) => Ipv4 {
            tos: 0xff,
            ttl: 0xff,
            checksum: 0xffff,
            ..network.header(lengths.network)
        }
        .write(writer),
        Network::V6(network) => Ipv6 {
            traffic_class: 0xff,
            flow_label: 0x000f_ffff,
            hop_limit: 0xff,
            ..network.header(lengths.network)
        }
        .write(writer),
    }
    Udp {
        checksum: 0xffff,
        ..route.udp_header(lengths.udp)
    }
    .emit(writer);
}

/// Returns the identification for which a packet (BTH to last pad byte) received over IPv4 has the
/// received ICRC; `None` if there is none or the packet did not arrive over IPv4: it is damaged.
///
/// The identification in `route` is ignored. Try 0 with [`compute`] first: most senders use it, and
/// then all 32 bits are checked.
pub fn identification(route: &Route, packet: &[u8], received: u32) -> Option<u16> {
    if !matches!(route.network, Network::V4(_)) {
        return None;
    }
    let difference = compute(&route.with_identification(0), packet) ^ received;
    // Behind the identification are the rest of the IPv4 header (14 of 20 bytes), UDP, and the
    // packet.
    let behind = 14 + udp::LENGTH + packet.len();
    let at_identification = polynomial::shift_back(difference, behind);
    let low_half_is_clear = at_identification & 0xffff == 0;
    low_half_is_clear.then_some(((at_identification >> 16) as u16).swap_bytes())
}

/// Returns the contribution of an identification to the register behind it. A register holds the
/// polynomial with its highest power lowest: two bytes are in the upper half, the first below the
/// second.
const fn in_register(identification: u16) -> u32 {
    (identification.swap_bytes() as u32) << 16
}

/// Polynomials over GF(2) modulo that of CRC-32; bit 31 of a register is power 0.
mod polynomial {
    /// x^32, reflected.
    const MODULUS: u32 = 0xedb8_8320;
    const ONE: u32 = 1 << 31;

    /// Returns the product of `a` and `b`.
    pub(super) const fn multiply(mut a: u32, mut b: u32) -> u32 {
        let mut product = 0;
        while a != 0 {
            if a & ONE != 0 {
                product ^= b;
            }
            a <<= 1;
            b = if b & 1 != 0 { b >> 1 ^ MODULUS } else { b >> 1 };
        }
        product
    }

    /// x^-1: the modulus is x * q + 1, so the inverse of x is q.
    const INVERSE_OF_X: u32 = MODULUS << 1 | 1;

    /// x^-(8 * 2^n) for every n.
    const INVERSE_POWERS: [u32; 32] = {
        let mut powers = [INVERSE_OF_X; 32];
        let mut squarings = 0;
        let mut power = INVERSE_OF_X;
        while squarings < 3 {
            power = multiply(power, power);
            squarings += 1;
        }
        let mut n = 0;
        while n < powers.len() {
            powers[n] = power;
            power = multiply(power, power);
            n += 1;
        }
        powers
    };

    /// Returns x^n.
    pub(super) const fn power(n: usize) -> u32 {
        let mut power = ONE;
        let mut at = 0;
        while at < n {
            power = multiply(power, ONE >> 1);
            at += 1;
        }
        power
    }

    /// Returns the state of a register before the last `bytes` zero bytes, and before the 32 zero
    /// bits that a CRC appends.
    pub(super) fn shift_back(register: u32, bytes: usize) -> u32 {
        let bytes = bytes + 4;
        INVERSE_POWERS
            .iter()
            .enumerate()
            .filter(|(n, _)| bytes >> n & 1 != 0)
            .fold(register, |register, (_, power)| multiply(register, *power))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_inverse_undoes_a_shift() {
            let x = ONE >> 1;
            assert_eq!(multiply(x, INVERSE_OF_X), ONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Gid;
    use crate::roce::{V4, V6};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn v4(identification: u16) -> Route {
        Route {
            network: Network::V4(V4 {
                tos: 0,
                identification,
                dont_fragment: true,
                ttl: 64,
                source: [10, 9, 0, 3],
                destination: [10, 9, 0, 2],
            }),
            source_port: 0xc121,
            destination_port: udp::PORT,
            udp_checksum: 0,
        }
    }

    /// Reference implementation, bit by bit over bytes masked by hand; shares no code with the
    /// implementation.
    fn slow_crc(bytes: &[u8]) -> u32 {
        let mut register = u32::MAX;
        for byte in bytes {
            register ^= u32::from(*byte);
            for _ in 0..8 {
                register = if register & 1 != 0 {
                    register >> 1 ^ 0xedb8_8320
                } else {
                    register >> 1
                };
            }
        }
        !register
    }

    #[test]
    fn the_icrc_covers_only_invariant_fields() {
        let packet: Vec<u8> = (0..40).collect();
        let plain = compute(&v4(7), &packet);
        let changed = |change: fn(&mut V4)| {
            let Network::V4(mut network) = v4(7).network else {
                unreachable!()
            };
            change(&mut network);
            compute(
                &Route {
                    network: Network::V4(network),
                    ..v4(7)
                },
                &packet,
            )
        };
        assert_eq!(changed(|network| network.tos = 2), plain);
        assert_eq!(changed(|network| network.ttl = 1), plain);
        assert_eq!(
            compute(
                &Route {
                    udp_checksum: 5,
                    ..v4(7)
                },
                &packet
            ),
            plain
        );
        let mut congested = packet.clone();
        congested[4] ^= 0xc0;
        assert_eq!(compute(&v4(7), &congested), plain);
        assert_ne!(changed(|network| network.identification = 8), plain);
        assert_ne!(changed(|network| network.dont_fragment = false), plain);
        assert_ne!(changed(|network| network.source[3] = 4), plain);
        assert_ne!(
            compute(
                &Route {
                    source_port: 0xc122,
                    ..v4(7)
                },
                &packet
            ),
            plain
        );
    }

    #[test]
    fn the_icrc_over_ipv6_covers_addresses_ports_and_lengths() {
        let network = V6 {
            traffic_class: 1,
            flow_label: 2,
            hop_limit: 3,
            source: Gid([0xfd; 16]),
            destination: Gid([0xfe; 16]),
        };
        let route = Route {
            network: Network::V6(network),
            ..v4(0)
        };
        let packet: Vec<u8> = (0..40).collect();
        let mut bytes = std::vec![0xff; 8];
        bytes.extend([0x6f, 0xff, 0xff, 0xff, 0, 52, 17, 0xff]);
        bytes.extend([0xfd; 16]);
        bytes.extend([0xfe; 16]);
        bytes.extend([0xc1, 0x21, 0x12, 0xb7, 0, 52, 0xff, 0xff]);
        bytes.extend(&packet);
        bytes[8 + 40 + 8 + 4] = 0xff;
        assert_eq!(compute(&route, &packet), slow_crc(&bytes));
        assert_eq!(identification(&route, &packet, 0), None);
    }

    #[test]
    fn icrcs_of_a_series_equal_those_of_single_packets() {
        let mut packets: Vec<Vec<u8>> = (0..12).map(|psn| (psn..psn + 40).collect()).collect();
        for (at, psn) in (3..9).zip(0..) {
            packets[at] = packets[2].clone();
            packets[at][4] ^= 0xc0;
            packets[at][8..12].copy_from_slice(&[0x80 * (psn % 2), 0, 1, psn]);
        }
        packets[10].truncate(20);
        packets[11].truncate(7);
        let v6 = Network::V6(V6 {
            traffic_class: 1,
            flow_label: 2,
            hop_limit: 3,
            source: Gid([0xfd; 16]),
            destination: Gid([0xfe; 16]),
        });
        for network in [v4(9).network, v6] {
            let route = Route { network, ..v4(0) };
            let mut series = Series::new(&route);
            for (identification, packet) in [0, 1, 2, 63, 64, 0x100, 0x8000, 0xffff, 5, 6, 7, 8]
                .into_iter()
                .zip(&packets)
            {
                let alone = compute(&route.with_identification(identification), packet);
                assert_eq!(series.compute(identification, packet), alone);
            }
        }
    }

    proptest! {
        #[test]
        fn the_ip_identification_is_recovered(
            id: u16, packet in proptest::collection::vec(any::<u8>(), 12..4200)) {
            let received = compute(&v4(id), &packet);
            prop_assert_eq!(identification(&v4(0), &packet, received), Some(id));
        }

        /// Of 2^32 differences 2^16 belong to an identification, so a random one passes with
        /// probability 1 in 65,536; a single bit and any burst within 16 bits that no
        /// identification produces are always refused.
        #[test]
        fn a_flipped_bit_matches_no_identification(
            id: u16, mut packet in proptest::collection::vec(any::<u8>(), 12..2000),
            at: prop::sample::Index, bit in 0u8..8)
        {
            let received = compute(&v4(id), &packet);
            let at = at.index(packet.len());
            prop_assume!(at != CONGESTION);
            packet[at] ^= 1 << bit;
            let found = identification(&v4(0), &packet, received);
            prop_assert_eq!(found, None);
        }
    }
}
