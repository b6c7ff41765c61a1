//! IP multicast on UDP sockets: ip(7), ipv6(7). The kernel announces memberships to routers and
//! switches (IGMP, RFC 3376; MLD, RFC 3810); a membership ends with its socket.

use super::udp::{Address, Sharing, Udp};
use crate::errno::Result;
use std::net::Ipv6Addr;

const IPV6_MULTICAST_ALL: libc::c_int = 29;

impl Udp {
    /// Returns a socket that receives only datagrams to `port` of a group through an interface.
    /// Other sockets of this user may do the same: each receives everything.
    ///
    /// # Errors
    /// ENODEV for an interface that does not exist; EADDRINUSE when another socket has the port and
    /// does not share it; the system's, when it has no descriptors or memory left.
    pub fn member(group: Ipv6Addr, port: u16, interface: u32) -> Result<Udp> {
        let at = Address {
            ip: group,
            port,
            scope: interface,
        };
        let (family, level, option) = match group.to_ipv4_mapped() {
            Some(_) => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
            None => (
                libc::AF_INET6,
                libc::IPPROTO_IPV6,
                libc::IPV6_ADD_MEMBERSHIP,
            ),
        };
        let socket = Udp::receiver_at(at, family, Sharing::Shared)?;
        match group.to_ipv4_mapped() {
            Some(group) => {
                let wanted = libc::ip_mreqn {
                    imr_multiaddr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(group.octets()),
                    },
                    imr_address: libc::in_addr { s_addr: 0 },
                    imr_ifindex: interface as libc::c_int,
                };
                socket.set(level, option, wanted)?;
            }
            None => {
                let wanted = libc::ipv6_mreq {
                    ipv6mr_multiaddr: libc::in6_addr {
                        s6_addr: group.octets(),
                    },
                    ipv6mr_interface: interface,
                };
                socket.set(level, option, wanted)?;
            }
        }
        Ok(socket)
    }

    /// Restricts the socket to its own groups. By default, Linux also delivers datagrams to groups
    /// that other sockets of this host have joined.
    pub(super) fn receive_only_joined_groups(&self, family: libc::c_int) -> Result<()> {
        if family == libc::AF_INET6 {
            // Linux before 4.20 lacks this option. Such datagrams are dropped later, because their
            // destination is no local address.
            let _ = self.set(libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
        }
        self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
    }

    /// Sends unicast datagrams through an interface, regardless of the routing table.
    ///
    /// # Errors
    /// EINVAL for an interface that does not exist.
    pub fn send_to_hosts(&self, from: Ipv6Addr, interface: u32) -> Result<()> {
        let interface = interface.to_be();
        match from.to_ipv4_mapped() {
            Some(_) => self.set(libc::IPPROTO_IP, libc::IP_UNICAST_IF, interface),
            None => self.set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF, interface),
        }
    }

    /// Sends datagrams to groups through an interface, with a hop limit, and without copies to
    /// members on this host.
    ///
    /// # Errors
    /// ENODEV for an interface that does not exist.
    pub fn send_to_groups(&self, from: Ipv6Addr, interface: u32, hops: u8) -> Result<()> {
        let hops = libc::c_int::from(hops);
        match from.to_ipv4_mapped() {
            Some(_) => {
                let through = libc::ip_mreqn {
                    imr_multiaddr: libc::in_addr { s_addr: 0 },
                    imr_address: libc::in_addr { s_addr: 0 },
                    imr_ifindex: interface as libc::c_int,
                };
                self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, through)?;
                self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)?;
                self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, hops)
            }
            None => {
                let level = libc::IPPROTO_IPV6;
                self.set(level, libc::IPV6_MULTICAST_IF, interface)?;
                self.set(level, libc::IPV6_MULTICAST_LOOP, 0)?;
                self.set(level, libc::IPV6_MULTICAST_HOPS, hops)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Inbox;
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    const LOOPBACK: u32 = 1;

    fn mapped(octets: [u8; 4]) -> Ipv6Addr {
        Ipv4Addr::from(octets).to_ipv6_mapped()
    }

    /// Counts the datagrams that arrive within 5 s at each socket.
    fn count(sockets: &[&Udp], expected: usize) -> Vec<usize> {
        let mut inbox = Inbox::default();
        let mut counts = vec![0; sockets.len()];
        let deadline = Instant::now() + Duration::from_secs(5);
        while counts.iter().sum::<usize>() < expected && Instant::now() < deadline {
            for (count, socket) in counts.iter_mut().zip(sockets) {
                *count += inbox.receive(socket);
            }
        }
        counts
    }

    /// Through the loopback interface, which delivers the datagrams sent to it.
    #[test]
    fn multicast_reaches_only_members_of_the_group() {
        let group = mapped([239, 1, 2, 3]);
        let everything = Udp::receiver(0, Sharing::Shared).unwrap();
        let port = everything.port().unwrap();
        let members = [(); 2].map(|()| Udp::member(group, port, LOOPBACK).unwrap());
        let of_another = Udp::member(mapped([239, 1, 2, 4]), port, LOOPBACK).unwrap();
        let from = mapped([127, 0, 0, 1]);
        let at = |ip, port| Address { ip, port, scope: 0 };
        let sender = Udp::sender(at(from, 0)).unwrap();
        sender.send_to_groups(from, LOOPBACK, 1).unwrap();
        sender.send(&at(group, port), b"to all", 6, 0).unwrap();
        // A second datagram, so that the first is no longer in flight when it arrives.
        sender.send(&at(from, port), b"to one", 6, 0).unwrap();
        let [first, second] = &members;
        let counts = count(&[first, second, &of_another, &everything], 3);
        assert_eq!(counts, [1, 1, 0, 1]);
    }
}
