//! IP addresses, and which of them belong to this host and so to the adapter.

use crate::abi::SocketAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use verbena_hca_net::link::is_link_local;
use verbena_hca_os::errno::{Errno, Result};

/// Parses a `struct sockaddr`; returns `None` for AF_UNSPEC, with which the library omits an
/// address.
///
/// # Errors
/// EAFNOSUPPORT for any other family than AF_INET and AF_INET6.
pub fn parse(address: &SocketAddress) -> Result<Option<SocketAddr>> {
    let bytes = &address.bytes;
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match i32::from(family) {
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET => Ok(Some((Ipv4Addr::from(word(4)), port).into())),
        libc::AF_INET6 => {
            let ip = <[u8; 16]>::try_from(&bytes[8..24]).unwrap_or_default();
            let flow = u32::from_ne_bytes(word(4));
            let scope = u32::from_ne_bytes(word(24));
            Ok(Some(SocketAddrV6::new(ip.into(), port, flow, scope).into()))
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Encodes a `struct sockaddr`; zeros for `None`.
pub fn encode(address: Option<SocketAddr>) -> SocketAddress {
    let mut bytes = [0; 28];
    let Some(address) = address else {
        return SocketAddress { bytes };
    };
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    SocketAddress { bytes }
}

/// The wildcard address.
pub const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Returns whether an address is this host's: exactly those can be bound.
pub fn is_ours(address: SocketAddr) -> bool {
    UdpSocket::bind(with_port(address, 0)).is_ok()
}

/// Returns the source address that this host uses towards `destination`.
///
/// # Errors
/// ENETUNREACH if there is no route to it.
pub fn source_towards(destination: SocketAddr) -> Result<SocketAddr> {
    let any: IpAddr = match destination {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket consults the routing table and sends nothing. Port 0 is not
    // allowed.
    let port = destination.port().max(1);
    let routed = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(with_port(destination, port))?;
        socket.local_addr()
    };
    match routed() {
        Ok(source) => Ok(with_port(source, 0)),
        Err(_) => Err(Errno(libc::ENETUNREACH)),
    }
}

/// Returns an address with its scope: a link-local one gets the interface, any other stays.
pub fn on_link(mut address: SocketAddr, interface: u32) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address
        && is_link_local(v6.ip())
    {
        v6.set_scope_id(interface);
    }
    address
}

/// Returns an address without its port, in a form that is unique on this host.
pub fn name(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if is_link_local(v6.ip()) && v6.scope_id() != 0 => {
            format!("{}%{}", v6.ip(), v6.scope_id())
        }
        _ => address.ip().to_string(),
    }
}

/// Returns the same address with another port.
pub fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn address_encoding_round_trips(v6: bool, ip: u128, port: u16, scope: u32) {
            let address: SocketAddr = if v6 {
                SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into()
            } else {
                (Ipv4Addr::from(ip as u32), port).into()
            };
            prop_assert_eq!(parse(&encode(Some(address))), Ok(Some(address)));
        }

        #[test]
        fn arbitrary_bytes_parse_or_are_refused(bytes: [u8; 28]) {
            let _ = parse(&SocketAddress { bytes });
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_local() {
        assert!(is_ours(([127, 0, 0, 1], 7471).into()));
        assert!(!is_ours(([192, 0, 2, 1], 7471).into()));
    }

    #[test]
    fn loopback_destinations_use_a_loopback_source() {
        let source = source_towards(([127, 0, 0, 1], 7471).into()).unwrap();
        assert_eq!(source, ([127, 0, 0, 1], 0).into());
    }
}
