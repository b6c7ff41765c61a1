//! From which address of ours to which of theirs: what an address vector means over RoCE (annex A17.4.4), and the
//! sockets that packets leave from.

use super::group;
use super::inquiry::Neighbours;
use super::receive::Arrival;
use super::residence::Residence;
use super::tunnel::far::Far;
use super::tunnel::frame::Envelope;
use super::tunnel::{self, Tunnels};
use crate::device::GIDS;
use crate::errno::{Errno, Result};
use crate::link::{self, is_link_local};
use crate::sys::udp::{Address, Udp};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use verbena_abi::{ibv_ah_attr, ibv_gid};
use verbena_wire::roce::{Network, Route, V4, V6};
use verbena_wire::{Gid, Qpn, udp};

/// Source ports are of this range, the dynamic one of IANA, and say nothing to others (annex A17.4.3). Ours are each sixteenth
/// of it, by which adapters like this one are told from others, mostly ([`is_ours`]).
const FIRST_SOURCE_PORT: u16 = 0xc009;
const SOURCE_PORTS: u32 = 0x400;
const BETWEEN: u16 = 16;

/// How many of them are each residence's.
const OF_RESIDENCE: u32 = SOURCE_PORTS / Residence::COUNT;

/// The one at a place among those of processes that are reached at a residence.
fn source_port(residence: Residence, place: u32) -> u16 {
    let place = place % OF_RESIDENCE * Residence::COUNT + residence.index();
    FIRST_SOURCE_PORT + place as u16 * BETWEEN
}

/// Where who sends from a port is reached, if it is an adapter like this one. Another may have any port, so whoever sends to a
/// private one asks there first.
pub fn residence_of(source_port: u16) -> Residence {
    if !is_ours(source_port) {
        return Residence::PUBLIC;
    }
    let place = u32::from((source_port - FIRST_SOURCE_PORT) / BETWEEN);
    let index = place % Residence::COUNT;
    let found = Residence::all().find(|residence| residence.index() == index);
    found.unwrap_or(Residence::PUBLIC)
}

/// Whether an adapter like this one may have sent a packet from that port. Another has such a port one time in sixteen, so
/// nothing may hang on it but what any adapter may be sent.
pub fn is_ours(source_port: u16) -> bool {
    source_port >= FIRST_SOURCE_PORT && (source_port - FIRST_SOURCE_PORT).is_multiple_of(BETWEEN)
}

/// Linux' default, for a socket that does not ask for another.
const HOPS: u8 = 64;

/// A socket that sends from one of our addresses.
#[derive(Debug)]
pub struct Sender {
    socket: Udp,
    local: Address,
    /// The interface that its packets leave through.
    through: u32,
    /// Whether the kernel cuts what is sent into segments.
    segments: AtomicBool,
}

impl Sender {
    /// From an address of an interface. The port differs from process to process, so that a receiver that coalesces by
    /// address and port does not mix what is for two of its processes.
    fn bind(residence: Residence, ip: Ipv6Addr, through: u32) -> Result<Sender> {
        let scope = scope(ip, through);
        let first = std::process::id().wrapping_mul(0x9e37_79b1) >> 16;
        for attempt in 0..OF_RESIDENCE {
            let port = source_port(residence, first.wrapping_add(attempt));
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

    /// Where its packets come from.
    pub(super) fn address(&self) -> Address {
        self.local
    }

    /// Sends a question of a tunnel's ends, as packets leave.
    pub(super) fn ask(&self, to: &Address, question: &[u8]) -> Result<()> {
        self.socket.send(to, question, question.len(), 0)
    }

    /// A socket that sends from the same address, for a question: what does not arrive is told there.
    fn asking(&self) -> Result<Udp> {
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

/// Has what a socket sends to hosts leave through the interface of its address.
fn leave_through(socket: &Udp, local: Address, interface: u32) -> Result<()> {
    // A socket of a link-local address is its interface's already, and the kernel refuses to be told so. And of one port the
    // routing table decides, for the address may be one that several interfaces lead to; of several it does not, for it
    // knows one way to a network, and ports may be ways to the same one.
    if link::ports() > 1 && local.scope == 0 {
        socket.send_to_hosts(local.ip, interface)?;
    }
    Ok(())
}

/// The sockets that send, by the places of their GIDs. Made when they are first needed.
#[derive(Debug)]
pub struct Senders {
    ports: Vec<[Mutex<Option<Arc<Sender>>>; GIDS]>,
    residence: Residence,
    failures: Failures,
    tunnels: Arc<Tunnels>,
}

/// What becomes of the network's word that something did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failures {
    /// Nobody wants to know: who waits for an answer waits in vain.
    Forgotten,
    /// The kernel keeps it.
    Kept,
}

impl Senders {
    /// Those that forget what did not arrive, of a process that is reached there.
    pub fn that_forget_failures(residence: Residence, tunnels: &Arc<Tunnels>) -> Senders {
        Senders::with(residence, Failures::Forgotten, tunnels)
    }

    /// Those that can tell whom something did not reach.
    pub fn that_keep_failures(residence: Residence, tunnels: &Arc<Tunnels>) -> Senders {
        Senders::with(residence, Failures::Kept, tunnels)
    }

    fn with(residence: Residence, failures: Failures, tunnels: &Arc<Tunnels>) -> Senders {
        let ports = 0..link::ports();
        Senders {
            ports: ports.map(|_| Default::default()).collect(),
            residence,
            failures,
            tunnels: tunnels.clone(),
        }
    }

    /// Whom something did not reach, at which address and port, and why, as far as the network has said.
    pub fn take_failures(&self) -> Vec<(Address, Errno)> {
        let mut failures = Vec::new();
        for place in self.ports.iter().flatten() {
            let place = place.lock().unwrap_or_else(|e| e.into_inner());
            let take = || place.as_ref()?.socket.take_failure();
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
        let places = port
            .checked_sub(1)
            .and_then(|at| self.ports.get(usize::from(at)));
        let place = places.and_then(|places| places.get(index));
        let mut place = place
            .ok_or(Errno::EINVAL)?
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        let ip = Ipv6Addr::from(entry.gid.bytes());
        let through = interface.index;
        // Another address may have stood there before, and an interface that is made again has another number.
        let is_its = |sender: &&Arc<Sender>| sender.local.ip == ip && sender.through == through;
        if let Some(sender) = place.as_ref().filter(is_its) {
            return Ok(sender.clone());
        }
        let sender = Arc::new(Sender::bind(self.residence, ip, through)?);
        if self.failures == Failures::Kept {
            sender.socket.keep_failures()?;
        }
        *place = Some(sender.clone());
        Ok(sender)
    }
}

/// Link-local addresses, and those of groups, mean something with their interface alone.
fn scope(ip: Ipv6Addr, interface: u32) -> u32 {
    if is_link_local(&ip) || ip.is_multicast() {
        interface
    } else {
        0
    }
}

/// The way from a port to one of another host.
#[derive(Clone, Debug)]
pub struct Path {
    port: u8,
    sender: Arc<Sender>,
    to: Address,
    traffic_class: u8,
    route: Route,
    /// What is known of the way; none where a tunnel cannot lead.
    far: Option<Arc<Far>>,
}

/// The bits of a traffic class by which a sender says that it will react to congestion (RFC 3168), and how: ECT(0).
const CAPABLE: u8 = 0b10;
const CODE_POINT: u8 = 0b11;

/// Whether an address vector leads to another host, and to none but that.
pub fn leads_elsewhere(vector: &ibv_ah_attr) -> bool {
    link::is_ethernet() && group::address(vector.grh.dgid).is_none() && own_port(vector).is_none()
}

/// The port of ours that an address vector's destination is, if it is one.
fn own_port(vector: &ibv_ah_attr) -> Option<u8> {
    match link::is_ethernet() {
        true => link::place_seen_from(vector.port_num, vector.grh.dgid).map(|place| place.port),
        false => link::infiniband_port(vector),
    }
}

/// In place of an interface's number: no port of this host's.
pub const NOWHERE: u32 = u32::MAX;

/// The number of the interface that an address vector leads to ([`link::interface_number`]), where
/// that is one of ours: what goes there through shared memory is for queue pairs of its port. A
/// group's is that which it is sent from. Over InfiniBand a destination that no port has is
/// [`NOWHERE`].
pub fn interface_towards(vector: &ibv_ah_attr) -> u32 {
    match own_port(vector) {
        Some(port) => link::interface_number(port),
        None if link::is_ethernet() || link::group(vector.grh.dgid).is_some() => {
            link::interface_number(vector.port_num)
        }
        None => NOWHERE,
    }
}

/// The IP address that an address vector's destination is.
pub fn destination(vector: &ibv_ah_attr) -> Ipv6Addr {
    let ip = Ipv6Addr::from(vector.grh.dgid.bytes());
    group::address(vector.grh.dgid).unwrap_or(ip)
}

impl Path {
    /// The way that an address vector describes.
    ///
    /// # Errors
    /// EADDRNOTAVAIL for a source GID that is no address of the interface (any more); EINVAL for one that there is not,
    /// or one of another kind than the destination.
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
        let may_be_tunnelled = to.scope == 0 && !ip.is_multicast() && tunnel::chosen() == Ok(true);
        Ok(Path {
            port: vector.port_num,
            route: route(sender.local, to, 0, 0),
            far: may_be_tunnelled.then(|| senders.tunnels.far(sender.local.ip, ip)),
            sender,
            to,
            traffic_class: vector.grh.traffic_class,
        })
    }

    /// The same to the port at which that queue pair is reached. Where its number is one of those of a private port, this
    /// may have to ask there first.
    #[inline]
    pub fn towards_queue_pair(self, number: Qpn, neighbours: &Neighbours) -> Path {
        self.towards(Residence::of_number(number), neighbours)
    }

    /// The same to one of our own ports, if one of us is at home there; it may have to be asked.
    #[inline]
    pub fn towards(self, residence: Residence, neighbours: &Neighbours) -> Path {
        let is_through_tunnel = |path: &Path| {
            let far = path.far.as_ref();
            far.is_some_and(|far| far.is_tunnelled() && far.has_line(residence))
        };
        match residence.is_private()
            && !self.to.ip.is_multicast()
            && (is_through_tunnel(&self) || self.leads_to_one_of_us(residence, neighbours))
        {
            true => self.with_port(residence.port()),
            false => self,
        }
    }

    /// Whether one of us is at home at a private port of the other end.
    pub fn leads_to_one_of_us(&self, residence: Residence, neighbours: &Neighbours) -> bool {
        neighbours.is_at_home(residence, self.to, || self.sender.asking())
    }

    /// The same to a port at which we have found somebody.
    pub fn towards_known(self, residence: Residence, neighbours: &Neighbours) -> Path {
        match neighbours.was_at_home(residence, self.to) {
            true => self.with_port(residence.port()),
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

    /// The same for who reacts when a switch marks what it sends.
    pub fn that_may_be_marked(self) -> Path {
        let class = self.traffic_class & !CODE_POINT | CAPABLE;
        self.with_traffic_class(class)
    }

    /// The same with another type of service or traffic class.
    pub fn with_traffic_class(self, traffic_class: u8) -> Path {
        Path {
            traffic_class,
            ..self
        }
    }

    /// What the packets of this way are in.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The same, with what the kernel fills in that the ICRC does not cover.
    pub fn route_as_sent(&self) -> Route {
        route(self.sender.local, self.to, self.traffic_class, HOPS)
    }

    /// What was sent there has been answered.
    pub fn answered(&self) {
        if let Some(far) = &self.far {
            far.heard();
        }
    }

    /// What is known of the way, where a tunnel can lead.
    pub(super) fn far(&self) -> Option<&Arc<Far>> {
        self.far.as_ref()
    }

    /// What packets leave from.
    pub(super) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Whether a packet from there to here is one of the peer's for us (specification 9.6.1.5; Linux' rxe checks the
    /// same).
    pub fn is_way_of(&self, arrival: &Arrival<'_>) -> bool {
        arrival.source == self.to.ip
            && arrival.destination == self.sender.local.ip
            && arrival.port == self.port
    }

    /// Whether several packets can leave in one call.
    pub fn segments(&self) -> bool {
        self.sender.segments.load(Ordering::Relaxed)
    }

    /// Several packets of `segment` bytes, the last of which may be shorter.
    ///
    /// # Errors
    /// What the kernel says; EOPNOTSUPP if it does not cut: then not again.
    pub fn send(&self, bytes: &[u8], segment: usize) -> Result<()> {
        /// How often the kernel is asked again when it has no room, and how long it may take.
        const ATTEMPTS: u32 = 3;
        const PATIENCE_MS: i32 = 1;
        if let Some(far) = self.far.as_ref().filter(|far| far.is_tunnelled()) {
            return self.send_through_tunnel(far, bytes, segment);
        }
        for _ in 0..ATTEMPTS {
            let sent = self
                .sender
                .socket
                .send(&self.to, bytes, segment, self.traffic_class);
            match sent {
                Err(Errno(libc::EAGAIN | libc::ENOBUFS)) => {
                    self.sender.socket.wait_for_room(PATIENCE_MS);
                }
                // Said of an earlier datagram, whose failure is kept; with that it is forgotten.
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
    fn send_through_tunnel(&self, far: &Far, bytes: &[u8], segment: usize) -> Result<()> {
        let Ok(segment @ 1..) = u16::try_from(segment) else {
            // Nothing to be taken there: it asks the network whether somebody has the port.
            return Ok(());
        };
        let envelope = Envelope {
            source_port: self.sender.local.port,
            destination_port: self.to.port,
            traffic_class: self.traffic_class,
            segment,
        };
        far.send(&self.sender, envelope, bytes)
    }
}

/// What a packet from one address to another is in, as far as the ICRC covers it.
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

/// The same with another IPv4 identification, which a socket neither sets nor sees.
pub fn with_identification(route: &Route, identification: u16) -> Route {
    match route.network {
        Network::V4(network) => Route {
            network: Network::V4(V4 {
                identification,
                ..network
            }),
            ..*route
        },
        Network::V6(_) => *route,
    }
}

/// An address as people write it: one of IPv4 without the mapping.
pub fn plain(ip: Ipv6Addr) -> IpAddr {
    match ip.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None => ip.into(),
    }
}

/// The GID of a mapped or IPv6 address.
pub fn gid(ip: Ipv6Addr) -> ibv_gid {
    ibv_gid::from_bytes(ip.octets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn adapters_like_this_one_are_known_by_their_ports() {
        let mut all = BTreeSet::new();
        for residence in Residence::all() {
            for attempt in 0..OF_RESIDENCE {
                let port = source_port(residence, attempt);
                assert!(is_ours(port) && port >= 0xc000, "{port}");
                assert_eq!(residence_of(port), residence);
                all.insert(port);
            }
            let next = source_port(residence, OF_RESIDENCE);
            assert_eq!(next, source_port(residence, 0));
        }
        assert_eq!(all.len(), SOURCE_PORTS as usize);
        assert_eq!(residence_of(0xc000), Residence::PUBLIC);
        let strangers = (0xc000..=u16::MAX).filter(|port| !is_ours(*port));
        assert_eq!(strangers.count(), 0x4000 / 16 * 15);
        assert!(!is_ours(udp::PORT));
    }
}
