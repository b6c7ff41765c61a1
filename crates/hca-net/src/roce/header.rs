//! The 40 bytes before a received datagram: over RoCE the IPv6 header, or 20 zero bytes and the
//! IPv4 header (annex A17.4.5.1). A UDP socket does not return them, so they are rebuilt from its
//! metadata.

use super::path;
use super::route::route;
use std::net::{Ipv4Addr, Ipv6Addr};
use verbena_abi::{ibv_ah_attr, ibv_gid};
use verbena_hca_os::udp::Address;
use verbena_wire::bth;
use verbena_wire::ip::{self, DONT_FRAGMENT, Ipv4, Ipv6};
use verbena_wire::packet::Packet;
use verbena_wire::roce::{Network, Route};
use verbena_wire::{grh, icrc, udp};

/// Returns the header type that completions of datagrams report in `sl`. Annex A17.4.5.1 requires
/// them to distinguish IPv4 and IPv6, but `ibv_wc` has no field for that. Mellanox adapters use
/// `sl`, which has no other use on Ethernet, and UCX reads it there.
#[inline]
pub fn kind(destination: Ipv6Addr) -> u8 {
    const ROCE_V2: u8 = 8;
    match destination.to_ipv4_mapped() {
        None => ROCE_V2 | 1,
        Some(_) => ROCE_V2 | 2,
    }
}

/// Returns the header of a received packet.
#[inline]
pub fn of(route: &Route, packet: &Packet<'_>) -> [u8; grh::LENGTH] {
    made(route, packet.length())
}

/// Returns the header of a datagram of `data` bytes that stays on this host, as if it had arrived
/// as a packet.
pub fn of_own_host(source: ibv_gid, vector: &ibv_ah_attr, data: u16) -> [u8; grh::LENGTH] {
    const DETH: usize = 8;
    let address = |ip| Address {
        ip,
        port: udp::PORT,
        scope: 0,
    };
    let (from, to) = (
        address(source.bytes().into()),
        address(path::destination(vector)),
    );
    let route = route(from, to, vector.grh.traffic_class, vector.grh.hop_limit);
    let padded = usize::from(data).next_multiple_of(4);
    made(&route, bth::LENGTH + DETH + padded)
}

/// Returns the destination address in such a header, or in InfiniBand's global route header.
#[inline]
pub fn destination(header: &[u8; grh::LENGTH]) -> Ipv6Addr {
    let [.., a, b, c, d] = *header;
    match header[0] >> 4 {
        6 => {
            let mut address = [0; 16];
            address.copy_from_slice(&header[grh::LENGTH - 16..]);
            address.into()
        }
        _ => Ipv4Addr::new(a, b, c, d).to_ipv6_mapped(),
    }
}

/// Returns the header of a packet of `length` bytes, counted from its BTH to its last pad byte.
pub fn made(route: &Route, length: usize) -> [u8; grh::LENGTH] {
    let data = (udp::LENGTH + length + icrc::LENGTH) as u16;
    let mut bytes = [0; grh::LENGTH];
    match route.network {
        Network::V4(network) => {
            let header = Ipv4 {
                tos: network.tos,
                total_length: data + ip::V4_LENGTH as u16,
                identification: network.identification,
                fragment: if network.dont_fragment {
                    DONT_FRAGMENT
                } else {
                    0
                },
                ttl: network.ttl,
                protocol: ip::UDP,
                checksum: 0,
                source: network.source,
                destination: network.destination,
            };
            bytes[grh::LENGTH - ip::V4_LENGTH..].copy_from_slice(&header.with_checksum().bytes());
        }
        Network::V6(network) => {
            bytes = Ipv6 {
                traffic_class: network.traffic_class,
                flow_label: network.flow_label,
                payload_length: data,
                next_header: ip::UDP,
                hop_limit: network.hop_limit,
                source: network.source,
                destination: network.destination,
            }
            .bytes();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_wire::Gid;
    use verbena_wire::roce::{V4, V6};

    fn within(network: Network) -> Route {
        Route {
            network,
            source_port: 0xd078,
            destination_port: udp::PORT,
            udp_checksum: 0,
        }
    }

    /// Header that a receiver found before a datagram of 33 bytes sent by Linux' rxe.
    #[test]
    fn ipv4_header_follows_twenty_zero_bytes() {
        let route = within(Network::V4(V4 {
            tos: 0,
            identification: 0x9550,
            dont_fragment: true,
            ttl: 64,
            source: [10, 9, 0, 3],
            destination: [10, 9, 0, 2],
        }));
        let bytes = made(&route, 56);
        assert_eq!(bytes[..20], [0; 20]);
        let golden = [
            0x45, 0x00, 0x00, 0x58, 0x95, 0x50, 0x40, 0x00, 0x40, 0x11, 0x91, 0x2e, 10, 9, 0, 3,
            10, 9, 0, 2,
        ];
        assert_eq!(bytes[20..], golden);
        assert_eq!(
            destination(&bytes),
            Ipv4Addr::new(10, 9, 0, 2).to_ipv6_mapped()
        );
    }

    #[test]
    fn ipv6_header_replaces_the_grh() {
        let route = within(Network::V6(V6 {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            source: Gid([1; 16]),
            destination: Gid([2; 16]),
        }));
        let bytes = made(&route, 56);
        assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 68, ip::UDP, 64]);
        assert_eq!(destination(&bytes), Ipv6Addr::from([2; 16]));
        assert_eq!(
            (bytes[8..24] == [1; 16], bytes[24..] == [2; 16]),
            (true, true)
        );
    }
}
