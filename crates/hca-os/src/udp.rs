//! UDP sockets for RoCEv2: udp(7), ip(7), ipv6(7), socket(7).
//!
//! - Received datagrams carry their local destination address. One call returns several, and
//!   equal-sized ones that arrived one after another may share a buffer (UDP_GRO).
//! - Datagrams are sent from an *unconnected* socket that must not fragment: over IPv4 such
//!   datagrams have the identification 0, and those of one call with UDP_SEGMENT count up from 0. A
//!   connected socket would choose another identification, and the ICRC covers it.
//!
//! IPv4 addresses are represented as IPv4-mapped IPv6 addresses.

use super::ancillary::{Ancillary, ROOM, Room};
use super::filter::Instruction;
use super::inet;
use crate::errno::{Errno, Result};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Source or destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv6 address, or IPv4-mapped.
    pub ip: Ipv6Addr,
    /// The port.
    pub port: u16,
    /// Interface index of a link-local address; otherwise 0.
    pub scope: u32,
}

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    fd: OwnedFd,
}

/// Whether other sockets of this user may bind the same port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They may: SO_REUSEPORT.
    Shared,
    /// They may from now on, but the port must be free now.
    SharedByUs,
    /// They may not.
    Alone,
}

/// Receive buffer size requested from the kernel, in bytes; `net.core.rmem_max` limits it.
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
/// Send buffer size requested from the kernel, in bytes.
const SEND_BUFFER: libc::c_int = 4 << 20;

const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
const UDP_NO_CHECK6_RX: libc::c_int = 102;

/// `struct sock_fprog` with a value for its padding: the kernel copies the padding too, and
/// valgrind reports uninitialised bytes.
#[repr(C)]
struct Program {
    length: u16,
    padding: [u8; PROGRAM_PADDING],
    instructions: *mut libc::sock_filter,
}

const PROGRAM_PADDING: usize = mem::offset_of!(libc::sock_fprog, filter) - mem::size_of::<u16>();
const _: () = assert!(mem::size_of::<Program>() == mem::size_of::<libc::sock_fprog>());

impl Udp {
    fn new(family: libc::c_int) -> Result<Udp> {
        inet::open(family, libc::SOCK_DGRAM).map(Udp::of)
    }

    /// Wraps a socket that was handed over.
    pub fn of(fd: OwnedFd) -> Udp {
        Udp { fd }
    }

    /// Returns a socket that receives datagrams to `port` of any address of this host, of IPv4 and
    /// IPv6, or of IPv4 alone where the system has no IPv6.
    ///
    /// # Errors
    /// EADDRINUSE when another socket has the port and either side does not share it; the system's.
    pub fn receiver(port: u16, sharing: Sharing) -> Result<Udp> {
        let any = |ip| Address { ip, port, scope: 0 };
        match Udp::receiver_at(any(Ipv6Addr::UNSPECIFIED), libc::AF_INET6, sharing) {
            Err(Errno(libc::EAFNOSUPPORT)) => {
                let any = any(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
                Udp::receiver_at(any, libc::AF_INET, sharing)
            }
            answer => answer,
        }
    }

    /// Returns a socket that receives datagrams to an address and port.
    pub(super) fn receiver_at(at: Address, family: libc::c_int, sharing: Sharing) -> Result<Udp> {
        let socket = Udp::new(family)?;
        if family == libc::AF_INET6 {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            // rxe sends IPv6 datagrams without a checksum. The ICRC covers more than the checksum
            // would.
            let _ = socket.set(libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
        }
        if sharing == Sharing::Shared {
            socket.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        socket.set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        socket.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        socket.set(libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
        socket.receive_only_joined_groups(family)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        // Older kernels do not coalesce.
        let _ = socket.set(libc::IPPROTO_UDP, UDP_GRO, 1);
        socket.bind(at)?;
        if sharing == Sharing::SharedByUs {
            socket.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        Ok(socket)
    }

    /// Returns a socket that sends from an address of this host.
    ///
    /// # Errors
    /// EADDRNOTAVAIL when the address is not local; EADDRINUSE when the port is taken; the
    /// system's.
    pub fn sender(local: Address) -> Result<Udp> {
        let socket = match local.ip.to_ipv4_mapped() {
            Some(_) => {
                let socket = Udp::new(libc::AF_INET)?;
                let must_not_fragment = libc::IP_PMTUDISC_DO;
                socket.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, must_not_fragment)?;
                socket
            }
            None => {
                let socket = Udp::new(libc::AF_INET6)?;
                let must_not_fragment = libc::IPV6_PMTUDISC_DO;
                let option = libc::IPV6_MTU_DISCOVER;
                socket.set(libc::IPPROTO_IPV6, option, must_not_fragment)?;
                socket
            }
        };
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
        socket.bind(local)?;
        Ok(socket)
    }

    /// Sets a socket option. `T` is the plain data that the kernel takes for it.
    pub(super) fn set<T: Copy>(
        &self,
        level: libc::c_int,
        option: libc::c_int,
        value: T,
    ) -> Result<()> {
        inet::set(&self.fd, level, option, value)
    }

    fn bind(&self, address: Address) -> Result<()> {
        inet::bind(&self.fd, address)
    }

    /// Attaches a program that chooses, by a datagram's data, the receiving socket among those that
    /// share the port (SO_ATTACH_REUSEPORT_CBPF). The program returns the socket's index in the
    /// order of binding. Set on one socket, it holds for all.
    ///
    /// # Errors
    /// The system's.
    pub fn choose_by(&self, program: &[Instruction]) -> Result<()> {
        let mut program: Vec<libc::sock_filter> =
            program.iter().map(Instruction::of_the_kernel).collect();
        let filter = Program {
            length: program.len() as u16,
            padding: [0; PROGRAM_PADDING],
            instructions: program.as_mut_ptr(),
        };
        // SAFETY: `filter` names a program of the stated length, which lives until the call
        // returns.
        let answer = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const filter).cast(),
                mem::size_of_val(&filter) as libc::socklen_t,
            )
        };
        if answer == 0 {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }

    /// Returns the port that the socket is bound to.
    ///
    /// # Errors
    /// EBADF when the descriptor was closed.
    pub fn port(&self) -> Result<u16> {
        inet::port(&self.fd)
    }

    /// Has the kernel keep the network's errors for datagrams that it did not deliver, for
    /// [`Udp::take_failure`].
    ///
    /// # Errors
    /// The system's, when neither family supports it.
    pub fn keep_failures(&self) -> Result<()> {
        self.set(libc::IPPROTO_IP, libc::IP_RECVERR, 1)
            .or_else(|_| self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1))
    }

    /// Returns the destination of a datagram that was not delivered, and the reason.
    pub fn take_failure(&self) -> Option<(Address, Errno)> {
        // SAFETY: all-zero structures of these types are valid.
        let (mut name, mut message): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let mut control = Room([0; ROOM]);
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = mem::size_of_val(&name) as libc::socklen_t;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = ROOM as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: `message` points to live buffers of the stated lengths; no data buffer is given,
        // so the datagram itself is dropped.
        if unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags) } < 0 {
            return None;
        }
        let mut reason = None;
        // SAFETY: the kernel filled the control buffer with well-formed headers up to
        // msg_controllen.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&message);
            while let Some(header) = at.as_ref() {
                if matches!(
                    (header.cmsg_level, header.cmsg_type),
                    (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
                ) {
                    let data = libc::CMSG_DATA(at).cast::<libc::sock_extended_err>();
                    reason = Some(Errno(data.read_unaligned().ee_errno as i32));
                }
                at = libc::CMSG_NXTHDR(&message, at);
            }
        }
        Some((SocketName::read(&name)?, reason?))
    }

    /// Sends `bytes`, cut into datagrams of `segment` bytes (the last may be shorter), with a type
    /// of service (IPv4) or traffic class (IPv6). Does not block.
    ///
    /// # Errors
    /// EAGAIN when the kernel has no space; EMSGSIZE when the path does not carry datagrams of that
    /// length; the network's.
    pub fn send(
        &self,
        to: &Address,
        bytes: &[u8],
        segment: usize,
        traffic_class: u8,
    ) -> Result<()> {
        let name = SocketName::of(*to);
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = name.pointer().cast_mut().cast();
        message.msg_namelen = name.length;
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        let mut ancillary = Ancillary::new();
        if segment < bytes.len() {
            ancillary.add(libc::IPPROTO_UDP, UDP_SEGMENT, segment as u16);
        }
        if traffic_class != 0 {
            let class = libc::c_int::from(traffic_class);
            match to.ip.to_ipv4_mapped() {
                Some(_) => ancillary.add(libc::IPPROTO_IP, libc::IP_TOS, class),
                None => ancillary.add(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class),
            }
        }
        ancillary.attach(&mut message);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` points to live buffers of the stated lengths.
        let n = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, flags) };
        if n < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// Waits until there is space to send, `milliseconds` at most.
    pub fn wait_for_room(&self, milliseconds: i32) {
        let mut wanted = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `wanted` is one valid pollfd.
        unsafe { libc::poll(&mut wanted, 1, milliseconds) };
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A socket address in the kernel's form.
pub(super) struct SocketName {
    storage: libc::sockaddr_storage,
    pub(super) length: libc::socklen_t,
}

impl SocketName {
    pub(super) fn of(address: Address) -> SocketName {
        // SAFETY: an all-zero sockaddr_storage is valid.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let length = match address.ip.to_ipv4_mapped() {
            Some(ip) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port.to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(ip.octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage has space for every socket address.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(name) };
                mem::size_of_val(&name)
            }
            None => {
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port.to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip.octets(),
                    },
                    sin6_scope_id: address.scope,
                };
                // SAFETY: a sockaddr_storage has space for every socket address.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(name) };
                mem::size_of_val(&name)
            }
        };
        SocketName {
            storage,
            length: length as libc::socklen_t,
        }
    }

    pub(super) fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn read(storage: &libc::sockaddr_storage) -> Option<Address> {
        let pointer: *const libc::sockaddr_storage = storage;
        match i32::from(storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that the storage holds a sockaddr_in.
                let name = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                Some(Address {
                    ip: ip.to_ipv6_mapped(),
                    port: u16::from_be(name.sin_port),
                    scope: 0,
                })
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that the storage holds a sockaddr_in6.
                let name = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
                Some(Address {
                    ip: Ipv6Addr::from(name.sin6_addr.s6_addr),
                    port: u16::from_be(name.sin6_port),
                    scope: name.sin6_scope_id,
                })
            }
            _ => None,
        }
    }
}

/// Size of one buffer in bytes: the longest datagram, or as many coalesced ones as fit.
const BUFFER: usize = 1 << 16;
/// Largest number of buffers that one receive call fills.
pub const BUFFERS: usize = 8;

/// Buffers for received datagrams, allocated once and reused.
pub struct Inbox {
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Room>,
    vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// Number of buffers that the next call asks for.
    wanted: usize,
}

// SAFETY: the pointers inside lead to the `Inbox`'s own vectors, which never grow.
unsafe impl Send for Inbox {}

/// Datagrams that arrived from one sender one after another.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Their source.
    pub source: Address,
    /// Their local destination address.
    pub destination: Ipv6Addr,
    /// Index of the interface that received them.
    pub interface: u32,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// The datagrams, concatenated.
    pub bytes: &'a [u8],
    /// Bytes of each; the last may be shorter.
    pub segment: usize,
}

impl Default for Inbox {
    fn default() -> Inbox {
        // SAFETY: all-zero structures of these types are valid.
        let (name, vector, message): (libc::sockaddr_storage, libc::iovec, libc::mmsghdr) =
            unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        let mut inbox = Inbox {
            bytes: vec![0; BUFFER * BUFFERS],
            names: vec![name; BUFFERS],
            controls: vec![Room([0; ROOM]); BUFFERS],
            vectors: vec![vector; BUFFERS],
            messages: vec![message; BUFFERS],
            wanted: 1,
        };
        for (index, buffer) in inbox
            .bytes
            .as_chunks_mut::<BUFFER>()
            .0
            .iter_mut()
            .enumerate()
        {
            inbox.vectors[index] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: BUFFER,
            };
            let header = &mut inbox.messages[index].msg_hdr;
            header.msg_name = (&raw mut inbox.names[index]).cast();
            header.msg_iov = &raw mut inbox.vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut inbox.controls[index]).cast();
        }
        inbox
    }
}

impl Inbox {
    /// Receives the datagrams that wait at a socket. Returns the number of buffers filled, 0 for
    /// none.
    ///
    /// After an empty call it asks for one buffer, and then for as many as there are: with more
    /// than one buffer the kernel would look for a second datagram before it returned a single
    /// latency-critical message.
    pub fn receive(&mut self, socket: &Udp) -> usize {
        for message in self.messages.iter_mut().take(self.wanted) {
            message.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as u32;
            message.msg_hdr.msg_controllen = ROOM as _;
        }
        // SAFETY: every header points to buffers of `self` of the stated lengths, which `&mut self`
        // keeps from others.
        let n = unsafe {
            libc::recvmmsg(
                socket.fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.wanted as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        // A failed receive is tried again, or its datagrams are lost as packets are.
        let count = usize::try_from(n).unwrap_or(0);
        self.wanted = if count == 0 { 1 } else { BUFFERS };
        count
    }

    /// Returns the contents of a buffer that the last call filled, or None if it was truncated or
    /// lacks a destination address.
    pub fn arrived(&self, index: usize) -> Option<Arrived<'_>> {
        let message = self.messages.get(index)?;
        let length = message.msg_len as usize;
        let bytes = self.bytes.get(index * BUFFER..)?.get(..length)?;
        let header = &message.msg_hdr;
        if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return None;
        }
        let mut arrived = Arrived {
            source: SocketName::read(self.names.get(index)?)?,
            destination: Ipv6Addr::UNSPECIFIED,
            interface: 0,
            traffic_class: 0,
            hop_limit: 0,
            bytes,
            segment: length.max(1),
        };
        // SAFETY: the kernel filled the control buffer with well-formed headers up to
        // msg_controllen.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(header);
            while let Some(control) = at.as_ref() {
                note(control, libc::CMSG_DATA(at), &mut arrived);
                at = libc::CMSG_NXTHDR(header, at);
            }
        }
        (!arrived.destination.is_unspecified()).then_some(arrived)
    }
}

/// Copies the contents of a control message to `arrived`.
///
/// # Safety
/// `data` is the data of `control`, as the kernel made it.
unsafe fn note(control: &libc::cmsghdr, data: *const u8, arrived: &mut Arrived<'_>) {
    // SAFETY: level and type determine the structure at `data`.
    unsafe {
        match (control.cmsg_level, control.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                let ip = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes());
                arrived.destination = ip.to_ipv6_mapped();
                arrived.interface = info.ipi_ifindex as u32;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                arrived.destination = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                arrived.interface = info.ipi6_ifindex;
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => arrived.traffic_class = data.read(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                arrived.traffic_class = data.cast::<libc::c_int>().read_unaligned() as u8;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                arrived.hop_limit = data.cast::<libc::c_int>().read_unaligned() as u8;
            }
            (libc::IPPROTO_UDP, UDP_GRO) => {
                let segment = data.cast::<libc::c_int>().read_unaligned();
                arrived.segment = usize::try_from(segment).unwrap_or(0).max(1);
            }
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ipv6Addr = Ipv4Addr::LOCALHOST.to_ipv6_mapped();

    fn port_of(socket: &Udp) -> u16 {
        socket.port().unwrap()
    }

    fn at(port: u16) -> Address {
        Address {
            ip: HERE,
            port,
            scope: 0,
        }
    }

    fn receive(inbox: &mut Inbox, socket: &Udp) -> Vec<(u16, Ipv6Addr, Vec<u8>)> {
        let mut all = Vec::new();
        for _ in 0..1000 {
            for index in 0..inbox.receive(socket) {
                let arrived = inbox.arrived(index).unwrap();
                for datagram in arrived.bytes.chunks(arrived.segment) {
                    all.push((arrived.source.port, arrived.destination, datagram.to_vec()));
                }
            }
            if !all.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        all
    }

    #[test]
    fn datagram_carries_source_and_destination() {
        let receiver = Udp::receiver(0, Sharing::Alone).unwrap();
        let sender = Udp::sender(at(0)).unwrap();
        sender
            .send(&at(port_of(&receiver)), b"twelve bytes", 12, 0)
            .unwrap();
        let all = receive(&mut Inbox::default(), &receiver);
        assert_eq!(all, [(port_of(&sender), HERE, b"twelve bytes".to_vec())]);
    }

    #[test]
    fn traffic_class_is_received() {
        let receiver = Udp::receiver(0, Sharing::Alone).unwrap();
        for ip in [HERE, Ipv6Addr::LOCALHOST] {
            let at = |port| Address { ip, port, scope: 0 };
            let sender = Udp::sender(at(0)).unwrap();
            let mut inbox = Inbox::default();
            for class in [0, 2, 0xc0] {
                sender
                    .send(&at(port_of(&receiver)), b"some", 4, class)
                    .unwrap();
                while inbox.receive(&receiver) == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(inbox.arrived(0).unwrap().traffic_class, class, "{ip}");
            }
        }
    }

    #[test]
    fn segments_are_received_as_datagrams() {
        let receiver = Udp::receiver(0, Sharing::Alone).unwrap();
        let sender = Udp::sender(at(0)).unwrap();
        let bytes: Vec<u8> = (0..250).collect();
        sender
            .send(&at(port_of(&receiver)), &bytes, 100, 2)
            .unwrap();
        let all = receive(&mut Inbox::default(), &receiver);
        let lengths: Vec<usize> = all.iter().map(|(.., bytes)| bytes.len()).collect();
        assert_eq!(lengths, [100, 100, 50]);
        assert_eq!(
            all.into_iter().flat_map(|one| one.2).collect::<Vec<u8>>(),
            bytes
        );
    }

    #[test]
    fn payload_byte_selects_among_sockets_sharing_a_port() {
        let first = Udp::receiver(0, Sharing::Shared).unwrap();
        let port = port_of(&first);
        let second = Udp::receiver(port, Sharing::Shared).unwrap();
        let program = [
            Instruction::LoadHalf(1),
            Instruction::And(1),
            Instruction::GiveLoaded,
        ];
        first.choose_by(&program).unwrap();
        let sender = Udp::sender(at(0)).unwrap();
        for byte in 0..8u8 {
            sender.send(&at(port), &[9, 9, byte, 9], 4, 0).unwrap();
        }
        let mut inbox = Inbox::default();
        for (parity, socket) in [(0, &first), (1, &second)] {
            let all = receive(&mut inbox, socket);
            assert!(all.iter().all(|(.., bytes)| bytes[2] & 1 == parity));
            assert!(!all.is_empty());
        }
        assert_eq!(
            Udp::receiver(port, Sharing::Alone).err(),
            Some(Errno(libc::EADDRINUSE))
        );
    }
}
