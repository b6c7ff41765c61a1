//! Configuration of interfaces by rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::address::Prefixed;

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// NLM_F_REQUEST, with NLM_F_DUMP for all objects.
const REQUEST: u16 = 0x1;
const DUMP: u16 = 0x301;
/// Groups of changed addresses and routes, of both IP versions.
const CHANGES: u32 = 0x10 | 0x100 | 0x40 | 0x400;
/// Attributes of routes: RTA_DST, RTA_OIF, RTA_GATEWAY.
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
/// NLM_F_REQUEST, NLM_F_ACK; NLM_F_CREATE and NLM_F_EXCL for new objects.
const CHANGE: u16 = 0x5;
const CREATE: u16 = 0x605;
const INTERFACE_UP: u32 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
/// Attributes: IFLA_MTU, IFLA_STATS64, IFLA_AF_SPEC, IFLA_INET6_ADDR_GEN_MODE; IFA_ADDRESS,
/// IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS.
const MTU: u16 = 4;
const STATISTICS: u16 = 23;
const FAMILIES: u16 = 26;
const IPV6_GENERATION: u16 = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
const FLAGS: u16 = 8;
/// The kernel makes no link-local address (IN6_ADDR_GEN_MODE_NONE).
const GENERATE_NONE: u8 = 1;
/// No search for duplicates (IFA_F_NODAD): the interface has no link layer for it.
const NO_SEARCH: u32 = 2;

/// Announces changes of addresses and routes of a network namespace.
pub struct Changes(OwnedFd);

impl Changes {
    /// Opens the announcements in the network namespace of this process.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open() -> io::Result<Changes> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, CHANGES))?;
        Ok(Changes(socket))
    }

    /// Takes all announcements, whose content does not matter, and returns whether there were any.
    pub fn take(&self) -> bool {
        let mut bytes = [0; 4096];
        let mut are_some = false;
        loop {
            match recv(&self.0, &mut bytes, RecvFlags::empty()) {
                // NOBUFS: the kernel had no space for some.
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => are_some = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return are_some,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Changes {
    fn from(socket: OwnedFd) -> Changes {
        Changes(socket)
    }
}

impl From<OwnedFd> for Netlink {
    fn from(socket: OwnedFd) -> Netlink {
        Netlink { socket, number: 0 }
    }
}

impl From<Netlink> for OwnedFd {
    fn from(netlink: Netlink) -> OwnedFd {
        netlink.socket
    }
}

impl From<Changes> for OwnedFd {
    fn from(changes: Changes) -> OwnedFd {
        changes.0
    }
}

/// A connection with the kernel.
pub struct Netlink {
    socket: OwnedFd,
    number: u32,
}

impl Netlink {
    /// Opens a connection in the network namespace of this process.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open() -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        // The default protocol is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Netlink { socket, number: 0 })
    }

    /// Sets the MTU of an interface.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        let mut body = link(index, 0);
        attribute(&mut body, MTU, &mtu.to_ne_bytes());
        self.call(NEW_LINK, CHANGE, &body)
    }

    /// Keeps the kernel from making link-local addresses on an interface.
    ///
    /// # Errors
    ///
    /// The kernel's, e.g. if it has no IPv6.
    pub fn make_no_link_local(&mut self, index: u32) -> io::Result<()> {
        let mut generation = Vec::new();
        attribute(&mut generation, IPV6_GENERATION, &[GENERATE_NONE]);
        let mut family = Vec::new();
        attribute(&mut family, INET6.into(), &generation);
        let mut body = link(index, 0);
        attribute(&mut body, FAMILIES, &family);
        self.call(NEW_LINK, CHANGE, &body)
    }

    /// Takes an interface up.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn take_up(&mut self, index: u32) -> io::Result<()> {
        self.call(NEW_LINK, CHANGE, &link(index, INTERFACE_UP))
    }

    /// Gives an interface an address.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn add_address(&mut self, index: u32, prefixed: &Prefixed) -> io::Result<()> {
        const UNIVERSE: u8 = 0;
        const LINK: u8 = 253;
        let is_local = matches!(prefixed.address, IpAddr::V6(it) if it.is_unicast_link_local());
        let family = if prefixed.address.is_ipv4() {
            INET
        } else {
            INET6
        };
        let scope = if is_local { LINK } else { UNIVERSE };
        let mut body = vec![family, prefixed.length, 0, scope];
        body.extend_from_slice(&index.to_ne_bytes());
        match prefixed.address {
            IpAddr::V4(address) => {
                attribute(&mut body, LOCAL, &address.octets());
                attribute(&mut body, ADDRESS, &address.octets());
                if let Some(broadcast) = prefixed.broadcast() {
                    attribute(&mut body, BROADCAST, &broadcast.octets());
                }
            }
            IpAddr::V6(address) => {
                attribute(&mut body, ADDRESS, &address.octets());
                attribute(&mut body, FLAGS, &NO_SEARCH.to_ne_bytes());
            }
        }
        self.call(NEW_ADDRESS, CREATE, &body)
    }

    /// Returns the addresses of an interface.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Prefixed>> {
        self.send(GET_ADDRESS, DUMP, &[0; 8])?;
        let mut found = Vec::new();
        loop {
            let mut answer = vec![0; LONGEST_ANSWER];
            let (length, _) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
            for (kind, body) in messages(&answer[..length]) {
                match kind {
                    NEW_ADDRESS => found.extend(address(body, index)),
                    DONE | ERROR => return Ok(found),
                    _ => {}
                }
            }
        }
    }

    /// Returns the number of packets to an interface that the kernel has dropped, as `ip -s link`
    /// shows it; `None` if there is no such interface.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn dropped(&mut self, index: u32) -> io::Result<Option<u64>> {
        self.send(GET_LINK, REQUEST, &link(index, 0))?;
        let mut answer = vec![0; LONGEST_ANSWER];
        let (length, _) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        let mut links = messages(&answer[..length]).filter(|(kind, _)| *kind == NEW_LINK);
        Ok(links.next().and_then(|(_, body)| dropped(body)))
    }

    /// Returns the gateway to a destination by an interface, if there is one.
    ///
    /// # Errors
    ///
    /// The kernel's, e.g. if there is no route.
    pub fn gateway(&mut self, to: IpAddr, index: u32) -> io::Result<Option<IpAddr>> {
        let (family, length) = if to.is_ipv4() {
            (INET, 32)
        } else {
            (INET6, 128)
        };
        let mut body = vec![family, length];
        body.resize(12, 0);
        match to {
            IpAddr::V4(to) => attribute(&mut body, DESTINATION, &to.octets()),
            IpAddr::V6(to) => attribute(&mut body, DESTINATION, &to.octets()),
        }
        attribute(&mut body, OUTPUT, &index.to_ne_bytes());
        self.send(GET_ROUTE, REQUEST, &body)?;
        let mut answer = vec![0; LONGEST_ANSWER];
        let (length, _) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        let mut routes = messages(&answer[..length]).filter(|(kind, _)| *kind == NEW_ROUTE);
        let route = routes.next().and_then(|(_, body)| body.get(12..));
        let mut all = attributes(route.unwrap_or_default());
        Ok(all
            .find(|(kind, _)| *kind == GATEWAY)
            .and_then(|(_, value)| ip(value)))
    }

    /// Sends a request, and returns the kernel's answer.
    fn call(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, flags, body)?;
        let mut answer = [0; 4096];
        let (length, _) = recv(&self.socket, &mut answer, RecvFlags::empty())?;
        status(&answer[..length])
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.number += 1;
        let length = (HEADER + body.len()) as u32;
        let mut request = length.to_ne_bytes().to_vec();
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&flags.to_ne_bytes());
        request.extend_from_slice(&self.number.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(body);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        Ok(())
    }
}

const HEADER: usize = 16;
/// The kernel's messages are shorter.
const LONGEST_ANSWER: usize = 32 << 10;

/// Splits an answer into the kinds and bodies of its messages.
fn messages(answer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
        let body = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Splits attributes into kinds and values.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Returns `tx_dropped` of `struct rtnl_link_stats64` in a `struct ifinfomsg` with attributes.
fn dropped(body: &[u8]) -> Option<u64> {
    const AT: usize = 7 * 8;
    let mut all = attributes(body.get(16..)?);
    let (_, statistics) = all.find(|(kind, _)| *kind == STATISTICS)?;
    let bytes = statistics.get(AT..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// Returns the address in a `struct ifaddrmsg` with attributes if it is one of the interface.
fn address(body: &[u8], index: u32) -> Option<Prefixed> {
    let (fixed, rest) = body.split_first_chunk::<8>()?;
    let [_, length, _, _, of @ ..] = *fixed;
    if u32::from_ne_bytes(of) != index {
        return None;
    }
    let value = |wanted| attributes(rest).find(|(kind, _)| *kind == wanted);
    // On a point-to-point interface of IPv4 the other attribute may be the peer's address.
    let (_, value) = value(LOCAL).or_else(|| value(ADDRESS))?;
    Some(Prefixed {
        address: ip(value)?,
        length,
    })
}

/// Returns the status in an acknowledgement.
fn status(answer: &[u8]) -> io::Result<()> {
    let kind = answer
        .get(4..6)
        .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    let number = answer
        .get(HEADER..)
        .and_then(|rest| rest.first_chunk::<4>());
    match (kind, number.map(|number| i32::from_ne_bytes(*number))) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(number)) => Err(io::Error::from_raw_os_error(number.wrapping_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns a `struct ifinfomsg` that sets these flags.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [index, flags, flags] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    body
}

/// Adds an attribute, padded to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    body.extend_from_slice(&length.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_and_their_lengths_are_not() {
        let mut body = Vec::new();
        attribute(&mut body, 8, &[1]);
        attribute(&mut body, 1, &[10, 0, 0, 1]);
        let word = u16::to_ne_bytes;
        assert_eq!(body[..4], [word(5), word(8)].concat());
        assert_eq!(body[4..8], [1, 0, 0, 0]);
        assert_eq!(body[8..12], [word(8), word(1)].concat());
    }

    #[test]
    fn addresses_of_the_interface_are_found() {
        let mut body = vec![INET, 24, 0, 0];
        body.extend_from_slice(&7u32.to_ne_bytes());
        attribute(&mut body, ADDRESS, &[10, 0, 0, 9]);
        attribute(&mut body, LOCAL, &[10, 0, 0, 1]);
        assert_eq!(
            address(&body, 7).map(|it| it.to_string()).as_deref(),
            Some("10.0.0.1/24")
        );
        assert_eq!(address(&body, 8), None);
        let mut answer = Vec::new();
        for _ in 0..2 {
            answer.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
            answer.extend_from_slice(&NEW_ADDRESS.to_ne_bytes());
            answer.extend_from_slice(&[0; 10]);
            answer.extend_from_slice(&body);
        }
        let found: Vec<_> = messages(&answer).collect();
        assert_eq!(found, [(NEW_ADDRESS, &body[..]), (NEW_ADDRESS, &body[..])]);
        assert_eq!(messages(&answer[..answer.len() - 1]).count(), 1);
    }

    #[test]
    fn dropped_packets_of_an_interface_are_read() {
        let mut body = link(7, 0);
        attribute(&mut body, MTU, &[0; 4]);
        let statistics: Vec<u8> = (0..24u64).flat_map(u64::to_ne_bytes).collect();
        attribute(&mut body, STATISTICS, &statistics);
        assert_eq!(dropped(&body), Some(7));
        assert_eq!(dropped(&body[..30]), None);
        let mut kernel = Netlink::open().unwrap();
        // The loopback interface.
        assert!(kernel.dropped(1).unwrap().is_some());
        assert_eq!(kernel.dropped(u32::MAX >> 1).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split(bytes: Vec<u8>) {
            for (_, body) in messages(&bytes) {
                let _ = (address(body, 0), dropped(body), attributes(body).count());
            }
        }
    }

    #[test]
    fn the_kernels_answers_are_read() {
        let mut answer = vec![0; 36];
        answer[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        assert!(status(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-17i32).to_ne_bytes());
        assert_eq!(status(&answer).unwrap_err().raw_os_error(), Some(17));
        assert!(status(&answer[..10]).is_err());
    }
}
