//! Headers around a packet as the ICRC covers them, and notations of addresses.

use std::net::{IpAddr, Ipv6Addr};
use verbena_abi::ibv_gid;
use verbena_hca_os::udp::Address;
use verbena_wire::Gid;
use verbena_wire::roce::{Network, Route, V4, V6};

/// Returns the headers of a packet from one address to another, as far as the ICRC covers them.
#[inline]
pub fn route(from: Address, to: Address, traffic_class: u8, hop_limit: u8) -> Route {
    let network = match (from.ip.to_ipv4_mapped(), to.ip.to_ipv4_mapped()) {
        (Some(source), Some(destination)) => Network::V4(V4 {
            tos: traffic_class,
            identification: 0,
            dont_fragment: true,
            ttl: hop_limit,
            source: source.octets(),
            destination: destination.octets(),
        }),
        _ => Network::V6(V6 {
            traffic_class,
            flow_label: 0,
            hop_limit,
            source: Gid(from.ip.octets()),
            destination: Gid(to.ip.octets()),
        }),
    };
    Route {
        network,
        source_port: from.port,
        destination_port: to.port,
        udp_checksum: 0,
    }
}

/// Returns an address in its usual notation: mapped IPv4 as IPv4.
pub fn plain(ip: Ipv6Addr) -> IpAddr {
    match ip.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None => ip.into(),
    }
}

/// Returns the GID of a mapped or IPv6 address.
#[inline]
pub fn gid(ip: Ipv6Addr) -> ibv_gid {
    ibv_gid::from_bytes(ip.octets())
}
