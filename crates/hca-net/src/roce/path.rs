//! Local and remote address of a packet: an address vector's meaning over RoCE (annex A17.4.4), and
//! the sets of sending sockets.

use super::fallback::frame::Envelope;
use super::fallback::reachability::Reachability;
use super::fallback::{self, Fallback};
use super::packet::ReceivedPacket;
use super::port_probe::ProbeCache;
use super::route::route;
use super::sender::{HOPS, Sender, scope};
use super::udp_port::UdpPort;
use crate::device;
use crate::link::{self, GIDS};
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use verbena_abi::ibv_ah_attr;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::udp::Address;
use verbena_wire::roce::Route;
use verbena_wire::{Qpn, udp};

/// Sending sockets by GID index, created on first use.
#[derive(Debug)]
pub struct Senders {
    ports: Vec<[Mutex<Option<Arc<Sender>>>; GIDS]>,
    udp_port: UdpPort,
    failures: Failures,
    fallback: Arc<Fallback>,
}

/// Treatment of ICMP errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failures {
    /// Ignored: packets are retried and time out.
    Forgotten,
    /// Kept by the kernel.
    Kept,
}

impl Senders {
    /// Creates senders that ignore ICMP errors, for a process that receives at `udp_port`.
    pub fn that_forget_failures(udp_port: UdpPort, fallback: &Arc<Fallback>) -> Senders {
        Senders::with(udp_port, Failures::Forgotten, fallback)
    }

    /// Creates senders that report ICMP errors.
    pub fn that_keep_failures(udp_port: UdpPort, fallback: &Arc<Fallback>) -> Senders {
        Senders::with(udp_port, Failures::Kept, fallback)
    }

    fn with(udp_port: UdpPort, failures: Failures, fallback: &Arc<Fallback>) -> Senders {
        let ports = 0..link::ports();
        Senders {
            ports: ports.map(|_| Default::default()).collect(),
            udp_port,
            failures,
            fallback: fallback.clone(),
        }
    }

    /// Returns the destinations that datagrams did not reach, with the reason, as far as ICMP
    /// errors have arrived.
    pub fn take_failures(&self) -> Vec<(Address, Errno)> {
        let mut failures = Vec::new();
        for slot in self.ports.iter().flatten() {
            let slot = slot.lock().unwrap_or_else(|e| e.into_inner());
            let take = || slot.as_ref()?.socket.take_failure();
            failures.extend(std::iter::from_fn(take));
        }
        failures
    }

    pub(super) fn of(&self, port: u8, index: usize) -> Result<Arc<Sender>> {
        let interface = link::interface(port).ok_or(Errno::EINVAL)?;
        let entry = interface.entry(index).ok_or(Errno::EINVAL)?;
        if !entry.is_address {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let slots = port
            .checked_sub(1)
            .and_then(|at| self.ports.get(usize::from(at)));
        let slot = slots.and_then(|slots| slots.get(index));
        let mut slot = slot
            .ok_or(Errno::EINVAL)?
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        let ip = Ipv6Addr::from(entry.gid.bytes());
        let through = interface.index;
        // The GID may have had another address before, and a recreated interface has another index.
        let is_its = |sender: &&Arc<Sender>| sender.local.ip == ip && sender.through == through;
        if let Some(sender) = slot.as_ref().filter(is_its) {
            return Ok(sender.clone());
        }
        let sender = Arc::new(Sender::bind(self.udp_port, ip, through)?);
        if self.failures == Failures::Kept {
            sender.socket.keep_failures()?;
        }
        *slot = Some(sender.clone());
        Ok(sender)
    }
}

/// A path from a local port to an address of another host.
#[derive(Clone, Debug)]
pub struct Path {
    port: u8,
    sender: Arc<Sender>,
    to: Address,
    traffic_class: u8,
    route: Route,
    /// Reachability of the address; none where the TCP fallback does not apply.
    reachability: Option<Arc<Reachability>>,
}

/// Bits of a traffic class with which a sender declares that it reacts to congestion: ECT(0) (RFC
/// 3168).
const CAPABLE: u8 = 0b10;
const CODE_POINT: u8 = 0b11;

/// Returns whether an address vector leads to another host, and to that alone.
#[inline]
pub fn leads_elsewhere(vector: &ibv_ah_attr) -> bool {
    link::is_ethernet() && link::ip_group(vector.grh.dgid).is_none() && own_port(vector).is_none()
}

/// Returns the local port that has an address vector's destination, if any.
#[inline]
fn own_port(vector: &ibv_ah_attr) -> Option<u8> {
    match link::is_ethernet() {
        true => {
            link::locate_gid_from(vector.port_num, vector.grh.dgid).map(|location| location.port)
        }
        false => device::port_towards(vector),
    }
}

pub use crate::fabric::NOWHERE;

/// Returns the number of the interface that an address vector leads to
/// ([`link::interface_number`]), if that is local: packets there go through shared memory to queue
/// pairs of its port. For a group it is the sending interface. Over InfiniBand, a destination that
/// no local port has yields [`NOWHERE`].
#[inline]
pub fn interface_towards(vector: &ibv_ah_attr) -> u32 {
    match link::fabric() {
        Some(fabric) => fabric.towards(vector),
        None => local_interface_towards(vector),
    }
}

/// As [`interface_towards`], without a fabric.
#[inline]
pub fn local_interface_towards(vector: &ibv_ah_attr) -> u32 {
    match own_port(vector) {
        Some(port) => link::interface_number(port),
        None if link::is_ethernet() || link::group(vector.grh.dgid).is_some() => {
            link::interface_number(vector.port_num)
        }
        None => NOWHERE,
    }
}

/// Returns the IP address of an address vector's destination.
#[inline]
pub fn destination(vector: &ibv_ah_attr) -> Ipv6Addr {
    let ip = Ipv6Addr::from(vector.grh.dgid.bytes());
    link::ip_group(vector.grh.dgid).unwrap_or(ip)
}

impl Path {
    /// Creates the path that an address vector describes.
    ///
    /// # Errors
    /// EADDRNOTAVAIL for a source GID that is not an address of the interface (any more); EINVAL
    /// for one that does not exist, or whose address family differs from the destination's.
    pub fn of(senders: &Senders, vector: &ibv_ah_attr) -> Result<Path> {
        let sender = senders.of(vector.port_num, vector.grh.sgid_index.into())?;
        let ip = destination(vector);
        if ip.to_ipv4_mapped().is_some() != sender.local.ip.to_ipv4_mapped().is_some() {
            return Err(Errno::EINVAL);
        }
        let to = Address {
            ip,
            port: udp::PORT,
            scope: scope(ip, sender.through),
        };
        let may_fall_back = to.scope == 0 && !ip.is_multicast() && fallback::chosen() == Ok(true);
        Ok(Path {
            port: vector.port_num,
            route: route(sender.local, to, 0, 0),
            reachability: may_fall_back.then(|| senders.fallback.reachability(sender.local.ip, ip)),
            sender,
            to,
            traffic_class: vector.grh.traffic_class,
        })
    }

    /// Returns the path to the port at which the queue pair is reached. For a number of a private
    /// port, this may have to probe the port first.
    #[inline]
    pub fn towards_queue_pair(self, number: Qpn, probe_cache: &ProbeCache) -> Path {
        self.towards(UdpPort::of_number(number), probe_cache)
    }

    /// Returns the path to a private port, if a Verbena adapter receives there, which may have to
    /// be probed.
    #[inline]
    pub fn towards(self, udp_port: UdpPort, probe_cache: &ProbeCache) -> Path {
        let is_over_tcp = |path: &Path| {
            let reachability = path.reachability.as_ref();
            reachability.is_some_and(|reachability| {
                reachability.is_over_tcp() && reachability.has_connection(udp_port)
            })
        };
        match udp_port.is_private()
            && !self.to.ip.is_multicast()
            && (is_over_tcp(&self) || self.leads_to_verbena(udp_port, probe_cache))
        {
            true => self.with_port(udp_port.port()),
            false => self,
        }
    }

    /// Returns whether a Verbena adapter receives at a private port of the peer.
    #[inline]
    pub fn leads_to_verbena(&self, udp_port: UdpPort, probe_cache: &ProbeCache) -> bool {
        probe_cache.has_adapter(udp_port, self.to, || self.sender.asking())
    }

    /// Returns the path to a private port, if a Verbena adapter was found there before.
    #[inline]
    pub fn towards_known(self, udp_port: UdpPort, probe_cache: &ProbeCache) -> Path {
        match probe_cache.had_adapter(udp_port, self.to) {
            true => self.with_port(udp_port.port()),
            false => self,
        }
    }

    fn with_port(self, port: u16) -> Path {
        let to = Address { port, ..self.to };
        Path {
            to,
            route: route(self.sender.local, to, 0, 0),
            ..self
        }
    }

    /// Returns the path with packets marked as ECN-capable, for a sender that reacts to congestion.
    #[inline]
    pub fn that_may_be_marked(self) -> Path {
        let class = self.traffic_class & !CODE_POINT | CAPABLE;
        self.with_traffic_class(class)
    }

    /// Returns the path with another type of service or traffic class.
    #[inline]
    pub fn with_traffic_class(self, traffic_class: u8) -> Path {
        Path {
            traffic_class,
            ..self
        }
    }

    /// Returns the headers of packets on this path.
    #[inline]
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the headers with the fields that the kernel fills in and the ICRC does not cover.
    pub fn route_as_sent(&self) -> Route {
        route(self.sender.local, self.to, self.traffic_class, HOPS)
    }

    /// Notes that an answer arrived on this path.
    #[inline]
    pub fn answered(&self) {
        if let Some(reachability) = &self.reachability {
            reachability.note_udp_answer();
        }
    }

    /// Returns the reachability of the address, where the TCP fallback applies.
    #[inline]
    pub(super) fn reachability(&self) -> Option<&Arc<Reachability>> {
        self.reachability.as_ref()
    }

    #[inline]
    pub(super) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Returns whether a packet came from this path's peer to this path's local address
    /// (specification 9.6.1.5; Linux' rxe makes the same check).
    #[inline]
    pub fn is_path_of(&self, received: &ReceivedPacket<'_>) -> bool {
        received.source == self.to.ip
            && received.destination == self.sender.local.ip
            && received.port == self.port
    }

    /// Returns whether several packets can be sent in one call.
    #[inline]
    pub fn segments(&self) -> bool {
        self.sender.segments.load(Ordering::Relaxed)
    }

    /// Sends packets of `segment` bytes, of which the last may be shorter.
    ///
    /// # Errors
    /// The kernel's error; EOPNOTSUPP if it does not segment, after which [`Path::segments`] is
    /// false.
    pub fn send(&self, bytes: &[u8], segment: usize) -> Result<()> {
        /// Attempts while the kernel has no space, and milliseconds to wait after each.
        const ATTEMPTS: u32 = 3;
        const TIMEOUT_MS: i32 = 1;
        if let Some(reachability) = self
            .reachability
            .as_ref()
            .filter(|reachability| reachability.is_over_tcp())
        {
            return self.send_over_tcp(reachability, bytes, segment);
        }
        for _ in 0..ATTEMPTS {
            let sent = self
                .sender
                .socket
                .send(&self.to, bytes, segment, self.traffic_class);
            match sent {
                Err(Errno(libc::EAGAIN | libc::ENOBUFS)) => {
                    self.sender.socket.wait_for_room(TIMEOUT_MS);
                }
                // The error is about an earlier datagram whose failure is kept; returning it clears
                // it, so sending is tried again.
                Err(Errno(libc::ECONNREFUSED | libc::EHOSTUNREACH)) => (),
                Err(Errno(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT))
                    if segment < bytes.len() =>
                {
                    self.sender.segments.store(false, Ordering::Relaxed);
                    return Err(Errno::EOPNOTSUPP);
                }
                answer => return answer,
            }
        }
        Err(Errno::EAGAIN)
    }

    #[cold]
    fn send_over_tcp(
        &self,
        reachability: &Reachability,
        bytes: &[u8],
        segment: usize,
    ) -> Result<()> {
        let Ok(segment @ 1..) = u16::try_from(segment) else {
            // An empty datagram, which only serves to provoke an ICMP error, is not sent over TCP.
            return Ok(());
        };
        let envelope = Envelope {
            source_port: self.sender.local.port,
            destination_port: self.to.port,
            traffic_class: self.traffic_class,
            segment,
        };
        reachability.send(&self.sender, envelope, bytes)
    }
}
