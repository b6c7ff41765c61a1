//! Sockets that send packets, and their source ports.

use super::udp_port::UdpPort;
use crate::link::{self, is_link_local};
use std::net::Ipv6Addr;
use std::sync::atomic::AtomicBool;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::udp::{Address, Udp};

/// Source ports lie in IANA's dynamic range and carry no meaning for others (annex A17.4.3).
/// Verbena uses every sixteenth of them, which distinguishes its adapters from most others
/// ([`is_ours`]).
const FIRST_SOURCE_PORT: u16 = 0xc009;
const SOURCE_PORTS: u32 = 0x400;
const BETWEEN: u16 = 16;

/// Number of source ports per UDP port.
const OF_UDP_PORT: u32 = SOURCE_PORTS / UdpPort::COUNT;

/// Returns the source port at an index, for processes that receive at `udp_port`.
fn source_port(udp_port: UdpPort, ordinal: u32) -> u16 {
    let ordinal = ordinal % OF_UDP_PORT * UdpPort::COUNT + udp_port.index();
    FIRST_SOURCE_PORT + ordinal as u16 * BETWEEN
}

/// Returns the UDP port at which the sender of a packet receives, if it is a Verbena adapter. Other
/// adapters may use any source port, so a private port is probed before packets are sent to it.
#[inline]
pub fn udp_port_of(source_port: u16) -> UdpPort {
    if !is_ours(source_port) {
        return UdpPort::PUBLIC;
    }
    let ordinal = u32::from((source_port - FIRST_SOURCE_PORT) / BETWEEN);
    let index = ordinal % UdpPort::COUNT;
    let found = UdpPort::all().find(|udp_port| udp_port.index() == index);
    found.unwrap_or(UdpPort::PUBLIC)
}

/// Returns whether a Verbena adapter may have sent a packet from this source port. Another adapter
/// matches one time in sixteen, so a match permits only packets that any adapter may be sent.
#[inline]
pub fn is_ours(source_port: u16) -> bool {
    source_port >= FIRST_SOURCE_PORT && (source_port - FIRST_SOURCE_PORT).is_multiple_of(BETWEEN)
}

/// Linux' default hop limit.
pub(super) const HOPS: u8 = 64;

/// A socket that sends from a local address.
#[derive(Debug)]
pub struct Sender {
    pub(super) socket: Udp,
    pub(super) local: Address,
    /// Index of the interface that its packets leave through.
    pub(super) through: u32,
    /// Whether the kernel splits a buffer into segments.
    pub(super) segments: AtomicBool,
}

impl Sender {
    /// Binds to an interface's address. The source port differs between processes, so that a
    /// receiver that coalesces by address and port does not mix packets for two of its processes.
    pub(super) fn bind(udp_port: UdpPort, ip: Ipv6Addr, through: u32) -> Result<Sender> {
        let scope = scope(ip, through);
        let first = std::process::id().wrapping_mul(0x9e37_79b1) >> 16;
        for attempt in 0..OF_UDP_PORT {
            let port = source_port(udp_port, first.wrapping_add(attempt));
            let local = Address { ip, port, scope };
            match Udp::sender(local) {
                Ok(socket) => {
                    socket.send_to_groups(ip, through, HOPS)?;
                    leave_through(&socket, local, through)?;
                    return Ok(Sender {
                        socket,
                        local,
                        through,
                        segments: AtomicBool::new(true),
                    });
                }
                Err(Errno(libc::EADDRINUSE)) => (),
                Err(error) => return Err(error),
            }
        }
        Err(Errno(libc::EADDRINUSE))
    }

    pub(super) fn address(&self) -> Address {
        self.local
    }

    /// Sends a UDP probe of the TCP fallback, the way packets are sent.
    pub(super) fn send_probe(&self, to: &Address, question: &[u8]) -> Result<()> {
        self.socket.send(to, question, question.len(), 0)
    }

    /// Returns a socket at the same address for a port probe; ICMP errors are reported there.
    pub(super) fn asking(&self) -> Result<Udp> {
        let local = Address {
            port: 0,
            ..self.local
        };
        let socket = Udp::sender(local)?;
        leave_through(&socket, local, self.through)?;
        socket.keep_failures()?;
        Ok(socket)
    }
}

/// Makes a socket send through the interface of its address.
fn leave_through(socket: &Udp, local: Address, interface: u32) -> Result<()> {
    // A socket with a link-local address is bound to its interface already, and the kernel refuses
    // the option. With one port the routing table decides, because several interfaces may lead to
    // the address; with several ports it cannot, because it has one route per network, and several
    // ports may be on the same one.
    if link::ports() > 1 && local.scope == 0 {
        socket.send_to_hosts(local.ip, interface)?;
    }
    Ok(())
}

/// Returns the scope of an address: link-local and multicast addresses are only valid with their
/// interface.
pub(super) fn scope(ip: Ipv6Addr, interface: u32) -> u32 {
    if is_link_local(&ip) || ip.is_multicast() {
        interface
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use verbena_wire::udp;

    #[test]
    fn verbena_peers_are_recognized_by_source_port() {
        let mut all = BTreeSet::new();
        for udp_port in UdpPort::all() {
            for attempt in 0..OF_UDP_PORT {
                let port = source_port(udp_port, attempt);
                assert!(is_ours(port) && port >= 0xc000, "{port}");
                assert_eq!(udp_port_of(port), udp_port);
                all.insert(port);
            }
            let next = source_port(udp_port, OF_UDP_PORT);
            assert_eq!(next, source_port(udp_port, 0));
        }
        assert_eq!(all.len(), SOURCE_PORTS as usize);
        assert_eq!(udp_port_of(0xc000), UdpPort::PUBLIC);
        let strangers = (0xc000..=u16::MAX).filter(|port| !is_ours(*port));
        assert_eq!(strangers.count(), 0x4000 / 16 * 15);
        assert!(!is_ours(udp::PORT));
    }
}
