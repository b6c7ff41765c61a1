//! The rules of an interface, without I/O and clock: where packets go, and the answers to
//! messages.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use verbena_verbs::Gid;

use crate::address::Prefixed;
use crate::administration::Waiting;
use crate::administration::record::Path;
use crate::arp;
use crate::counters::{Counters, Drop};
use crate::encapsulation::{self, Protocol, Unusable};
use crate::fragment;
use crate::group;
use crate::hardware_address::{self, HardwareAddress};
use crate::ip;
use crate::ndp::{self, Kind, Parsed};
use crate::neighbour::{Decision, Neighbour, Table};
use crate::rate_limit::RateLimit;
use crate::too_long;

/// Pause between announcements that defend an address (RFC 5227 section 2.4), in milliseconds.
const DEFENCE_PAUSE: u64 = 10_000;

/// An interface.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its address on the link.
    pub hardware: HardwareAddress,
    /// Its partition.
    pub partition: u16,
    /// Longest IP packet.
    pub mtu: usize,
    /// Longest IP packet in a datagram.
    pub datagram_mtu: usize,
    /// Its IP addresses, with the link-local one.
    pub addresses: Vec<Prefixed>,
}

/// The result of sending a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It was sent.
    Done,
    /// It was not sent, and can be sent later.
    Busy,
    /// It was not sent: the receiver takes no datagrams.
    Stalled,
    /// The adapter refused it.
    Refused,
    /// It was not sent: the way to the receiver takes packets of this length at most.
    TooLong(usize),
    /// It waits for a path or a membership, and comes back by [`Station::resume`] or
    /// [`Station::fail`].
    Waits,
    /// It was dropped for this reason.
    Dropped(Drop),
}

/// The origin of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A program, or the kernel. Each is counted.
    Program,
    /// The interface itself.
    Interface,
}

/// The result of taking a packet from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was sent, stored or dropped.
    Done,
    /// It must be offered again, because the link is busy.
    Busy,
    /// It must be offered in fragments of at most this length.
    Cut(usize),
}

/// The decision on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// An IP packet for programs; it is counted as delivered.
    Deliver,
    /// The whole message has to be given to [`Station::receive`].
    Whole,
}

/// The link and the interface, as the rules use them.
pub trait Link {
    /// Sends an IP packet to a neighbour.
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent;
    /// Sends an answer to a neighbour that has requested an address. A busy link drops it.
    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent;
    /// Sends a packet to a group.
    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8], from: Origin) -> Sent;
    /// Notes the path back to the sender of a message.
    fn hear(&mut self, _from: Source) {}
    /// Gives a packet to the interface. Returns whether it was taken.
    fn deliver(&mut self, packet: &[u8]) -> bool;
    /// Gives an ICMP error of this interface to its programs. It is lost, and not counted, if the
    /// interface refuses it.
    fn report(&mut self, packet: &[u8]) {
        self.deliver(packet);
    }
    /// Gives a message to the connections. Returns `false` if it is invalid.
    fn connect(&mut self, message: &[u8], source: Source, now: u64) -> bool;
    /// Returns the neighbour by which a destination outside of the interface's prefixes is reached.
    fn next_hop(&mut self, to: IpAddr) -> IpAddr;
}

/// The sender of a datagram, as the adapter states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Its queue pair.
    pub queue_pair: u32,
    /// The path back to it.
    pub path: Path,
    /// Its GID, if the datagram has a global route.
    pub gid: Option<Gid>,
}

/// The state of an interface.
#[derive(Debug)]
pub struct Station {
    interface: Interface,
    table: Table,
    counters: Counters,
    /// When each address was last defended.
    defences: HashMap<IpAddr, u64>,
    /// Of ICMP errors.
    errors: RateLimit,
}

impl Station {
    /// Returns the state of a new interface.
    pub fn new(interface: Interface) -> Station {
        Station {
            interface,
            table: Table::default(),
            counters: Counters::default(),
            defences: HashMap::new(),
            errors: RateLimit::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns whether [`Station::tick`] must be called.
    pub fn is_waiting(&self) -> bool {
        self.table.is_waiting()
    }

    /// Announces the addresses of the interface, so that neighbours replace older entries.
    pub fn announce(&mut self, link: &mut impl Link) {
        for at in 0..self.interface.addresses.len() {
            self.announce_one(self.interface.addresses[at].address, link);
        }
    }

    /// Replaces the addresses of the interface, and announces the new ones.
    pub fn set_addresses(&mut self, addresses: &[Prefixed], link: &mut impl Link) {
        let old = std::mem::replace(&mut self.interface.addresses, addresses.to_vec());
        let is_left = |ip: &IpAddr| addresses.iter().any(|one| one.address == *ip);
        self.defences.retain(|ip, _| is_left(ip));
        for one in addresses {
            if !old.iter().any(|known| known.address == one.address) {
                self.announce_one(one.address, link);
            }
        }
    }

    fn announce_one(&self, address: IpAddr, link: &mut impl Link) -> Sent {
        match address {
            IpAddr::V4(address) => self.broadcast_request(address, address, link),
            IpAddr::V6(address) => {
                let kind = Kind::Advertisement {
                    is_solicited: false,
                    replaces: true,
                };
                self.advertise(kind, address, group::ALL_IPV6, |group, packet| {
                    link.multicast(group, Protocol::Ipv6, packet, Origin::Interface)
                })
            }
        }
    }

    /// Takes an IP packet from the interface.
    pub fn take(&mut self, packet: &[u8], now: u64, link: &mut impl Link) -> Taken {
        let taken = match self.route(packet, packet.len()) {
            Err(reason) => {
                self.counters.drop(reason, 1);
                Taken::Done
            }
            Ok((_, Route::Group(_))) if packet.len() > self.interface.datagram_mtu => {
                Taken::Cut(self.interface.datagram_mtu)
            }
            Ok((protocol, Route::Group(group))) => {
                let sent = link.multicast(group, protocol, packet, Origin::Program);
                self.count(sent, |counters| &mut counters.multicast)
            }
            Ok((_, Route::Neighbour(_))) if packet.len() > self.interface.mtu => {
                // A program has raised the MTU that the kernel knows.
                self.take_too_long(packet, self.interface.mtu, Drop::TooLong, now, link)
            }
            Ok((protocol, Route::Neighbour(to))) => {
                let to = self.next_hop(to, link);
                self.take_to(to, protocol, packet, now, link)
            }
        };
        self.counters.taken += u64::from(taken == Taken::Done);
        taken
    }

    fn next_hop(&self, to: IpAddr, link: &mut impl Link) -> IpAddr {
        let is_near = self.interface.addresses.iter().any(|one| one.contains(to));
        if is_near { to } else { link.next_hop(to) }
    }

    /// Returns the neighbour that gets an IP packet with these first bytes and this length, if its
    /// hardware address is known and need not be asked for. `longest` is the length of its longest
    /// segment.
    pub fn known(
        &mut self,
        front: &[u8],
        (length, longest): (usize, usize),
        now: u64,
        link: &mut impl Link,
    ) -> Option<(Protocol, Neighbour)> {
        let Ok((protocol, Route::Neighbour(to))) = self.route(front, length) else {
            return None;
        };
        if longest > self.interface.mtu {
            return None;
        }
        let to = self.next_hop(to, link);
        let at = self.table.known(to, now)?;
        Some((protocol, at))
    }

    /// Counts packets as sent that were not given to [`Station::take`].
    pub fn count_sent(&mut self, packets: u64) {
        self.counters.taken += packets;
        self.counters.unicast += packets;
    }

    /// Counts packets as refused by the adapter that were not given to [`Station::take`].
    pub fn count_refused(&mut self, packets: u64) {
        self.counters.taken += packets;
        self.counters.drop(Drop::Refused, packets);
    }

    /// Counts packets no longer that were sent: they will be taken again.
    pub fn take_back(&mut self, packets: u64) {
        self.counters.taken = self.counters.taken.saturating_sub(packets);
        self.counters.unicast = self.counters.unicast.saturating_sub(packets);
    }

    /// Counts a packet as dropped that cannot be cut.
    pub fn take_uncuttable(&mut self) {
        self.counters.taken += 1;
        self.counters.drop(Drop::TooLong, 1);
    }

    /// Counts something from the interface that is no packet.
    pub fn take_invalid(&mut self) {
        self.counters.taken += 1;
        self.counters.drop(Drop::NotIp, 1);
    }

    /// Counts packets as dropped that the interface had taken and then refused.
    pub fn undeliver(&mut self, packets: u64) {
        self.counters.delivered = self.counters.delivered.saturating_sub(packets);
        self.counters.drop(Drop::Interface, packets);
    }

    /// Counts packets as dropped that the link had taken for a neighbour.
    pub fn discard(&mut self, packets: u64) {
        self.counters.unicast = self.counters.unicast.saturating_sub(packets);
        self.counters.drop(Drop::Stalled, packets);
    }

    fn take_to(
        &mut self,
        to: IpAddr,
        protocol: Protocol,
        packet: &[u8],
        now: u64,
        link: &mut impl Link,
    ) -> Taken {
        let (decision, dropped) = self.table.send(to, packet, now);
        self.counters.drop(Drop::QueueFull, dropped);
        match decision {
            Decision::Waits => Taken::Done,
            Decision::WaitsAndAsk => {
                self.ask(to, link);
                Taken::Done
            }
            Decision::QueueFull => {
                self.counters.drop(Drop::QueueFull, 1);
                Taken::Done
            }
            Decision::Failed => {
                self.counters.drop(Drop::Unresolved, 1);
                Taken::Done
            }
            Decision::Send(at) | Decision::SendAndAsk(at) => {
                if matches!(decision, Decision::SendAndAsk(_)) {
                    self.ask(to, link);
                }
                match link.unicast(&at, protocol, packet) {
                    Sent::TooLong(mtu) => {
                        self.take_too_long(packet, mtu, Drop::TooLongForNeighbour, now, link)
                    }
                    sent => self.count(sent, |counters| &mut counters.unicast),
                }
            }
        }
    }

    /// Has a packet cut that is longer than the interface or a neighbour takes, or answers it by
    /// ICMP and drops it for this reason.
    fn take_too_long(
        &mut self,
        packet: &[u8],
        mtu: usize,
        reason: Drop,
        now: u64,
        link: &mut impl Link,
    ) -> Taken {
        if fragment::is_permitted(packet) {
            return Taken::Cut(mtu);
        }
        if let (Some(answer), Some(addresses)) =
            (too_long::answer(packet, mtu), ip::addresses(packet))
        {
            match self.errors.permits(addresses.destination, now) {
                true => link.report(&answer),
                false => self.counters.limited += 1,
            }
        }
        self.counters.drop(reason, 1);
        Taken::Done
    }

    /// Counts the result of sending a packet.
    fn count(&mut self, sent: Sent, counter: impl Fn(&mut Counters) -> &mut u64) -> Taken {
        match sent {
            Sent::Done => *counter(&mut self.counters) += 1,
            Sent::Refused => self.counters.drop(Drop::Refused, 1),
            Sent::Stalled => self.counters.drop(Drop::Stalled, 1),
            Sent::TooLong(_) => self.counters.drop(Drop::TooLongForNeighbour, 1),
            Sent::Busy => return Taken::Busy,
            Sent::Waits => {}
            Sent::Dropped(reason) => self.counters.drop(reason, 1),
        }
        Taken::Done
    }

    /// Returns where an IP packet with these first bytes and this length goes.
    fn route(&self, front: &[u8], length: usize) -> Result<(Protocol, Route), Drop> {
        let addresses = ip::addresses_of(front, length).ok_or(Drop::NotIp)?;
        let to = addresses.destination;
        let partition = self.interface.partition;
        let protocol = match to {
            IpAddr::V4(_) => Protocol::Ipv4,
            IpAddr::V6(_) => Protocol::Ipv6,
        };
        if to.is_multicast() {
            return Ok((protocol, Route::Group(group::of(to, partition))));
        }
        if self.is_broadcast(to) {
            return Ok((protocol, Route::Group(group::broadcast(partition))));
        }
        match self.source_towards(to) {
            Some(_) => Ok((protocol, Route::Neighbour(to))),
            None => Err(Drop::NoSource),
        }
    }

    fn is_broadcast(&self, to: IpAddr) -> bool {
        let IpAddr::V4(to) = to else { return false };
        let of_prefixes = self
            .interface
            .addresses
            .iter()
            .filter_map(Prefixed::broadcast);
        to.is_broadcast() || of_prefixes.into_iter().any(|address| address == to)
    }

    /// Returns the interface's address for messages to another: one of the same prefix, else the
    /// first.
    fn source_towards(&self, to: IpAddr) -> Option<IpAddr> {
        let same_version = |one: &&Prefixed| one.address.is_ipv4() == to.is_ipv4();
        let mut candidates = self.interface.addresses.iter().filter(same_version);
        let nearest = candidates.clone().find(|one| one.contains(to));
        nearest.or_else(|| candidates.next()).map(|one| one.address)
    }

    fn has(&self, address: IpAddr) -> bool {
        let mut own = self.interface.addresses.iter();
        own.any(|one| one.address == address)
    }

    /// Asks for the hardware address of a neighbour.
    fn ask(&mut self, to: IpAddr, link: &mut impl Link) {
        match (to, self.source_towards(to)) {
            (IpAddr::V4(to), Some(IpAddr::V4(source))) => {
                self.broadcast_request(source, to, link);
            }
            (IpAddr::V6(target), Some(IpAddr::V6(source))) => {
                let destination = group::solicited_node(target);
                let message = ndp::Message {
                    kind: Kind::Solicitation,
                    source,
                    destination,
                    target,
                    hardware: Some(self.interface.hardware),
                };
                let gid = group::of(destination.into(), self.interface.partition);
                link.multicast(gid, Protocol::Ipv6, &message.packet(), Origin::Interface);
            }
            _ => return,
        }
        self.counters.requests += 1;
    }

    fn broadcast_request(
        &self,
        sender_ip: Ipv4Addr,
        target_ip: Ipv4Addr,
        link: &mut impl Link,
    ) -> Sent {
        let message = arp::Message {
            operation: arp::Operation::Request,
            sender: self.interface.hardware,
            sender_ip,
            target: [0; hardware_address::LENGTH],
            target_ip,
        };
        let group = group::broadcast(self.interface.partition);
        link.multicast(group, Protocol::Arp, &message.bytes(), Origin::Interface)
    }

    /// Sends requests that are due, and drops packets to neighbours that do not answer.
    pub fn tick(&mut self, now: u64, link: &mut impl Link) {
        let due = self.table.tick(now);
        self.counters.drop(Drop::Unresolved, due.dropped);
        for address in due.ask {
            self.ask(address, link);
        }
    }

    /// Returns the number of packets that wait for an address.
    pub fn waiting(&self) -> u64 {
        self.table.waiting()
    }

    /// Counts packets that the kernel dropped in front of the interface.
    pub fn count_dropped_by_kernel(&mut self, packets: u64) {
        self.counters.dropped_by_kernel = packets;
    }

    /// Drops the packets that still wait when the interface ends, and one that the link has not
    /// taken if there is one.
    pub fn end(&mut self, left: u64) {
        self.counters.taken += left;
        self.counters.drop(Drop::Stalled, left);
        let waiting = self.table.waiting();
        self.counters.drop(Drop::Unresolved, waiting);
        self.table = Table::default();
    }

    /// Counts a receive that failed.
    pub fn receive_failed(&mut self) {
        self.counters.received += 1;
        self.counters.drop(Drop::Failed, 1);
    }

    /// Takes a datagram from the link.
    pub fn receive(&mut self, datagram: &[u8], source: Source, now: u64, link: &mut impl Link) {
        if self.is_own(&source) {
            return;
        }
        self.counters.received += 1;
        if let Err(reason) = self.dispatch(datagram, source, now, link) {
            self.counters.drop(reason, 1);
        }
    }

    /// Returns whether a datagram is the adapter's copy of one that this interface sent to a group.
    pub fn is_own(&self, source: &Source) -> bool {
        let own = &self.interface.hardware;
        source.queue_pair == own.queue_pair && source.gid.is_none_or(|gid| gid == own.gid)
    }

    /// Decides on a message with these first bytes and this length, which another interface sent.
    /// The first bytes have the headers of IP.
    pub fn receive_front(&mut self, front: &[u8], length: usize) -> Front {
        let (protocol, packet) = match encapsulation::parse(front) {
            Ok((protocol @ (Protocol::Ipv4 | Protocol::Ipv6), packet)) => (protocol, packet),
            _ => return Front::Whole,
        };
        let length = length.saturating_sub(encapsulation::LENGTH);
        match ip::addresses_of(packet, length) {
            Some(addresses) if addresses.destination.is_ipv4() == (protocol == Protocol::Ipv4) => {
                if protocol == Protocol::Ipv6 && ndp::parse(packet) != Parsed::Other {
                    return Front::Whole;
                }
                self.counters.received += 1;
                self.counters.delivered += 1;
                Front::Deliver
            }
            _ => Front::Whole,
        }
    }

    /// Counts a message of a connection as dropped that cannot be delivered.
    pub fn receive_undeliverable(&mut self) {
        self.counters.received += 1;
        self.counters.drop(Drop::BadIp, 1);
    }

    fn dispatch(
        &mut self,
        datagram: &[u8],
        source: Source,
        now: u64,
        link: &mut impl Link,
    ) -> Result<(), Drop> {
        let (protocol, packet) = encapsulation::parse(datagram).map_err(|error| match error {
            Unusable::Short => Drop::Short,
            Unusable::UnknownType => Drop::UnknownType,
        })?;
        if protocol == Protocol::Arp {
            let message = arp::Message::parse(packet).ok_or(Drop::BadArp)?;
            is_genuine(&message.sender, source)?;
            link.hear(source);
            self.counters.messages += 1;
            self.receive_arp(&message, source, now, link);
            return Ok(());
        }
        if protocol == Protocol::Connection {
            if !link.connect(packet, source, now) {
                return Err(Drop::BadConnection);
            }
            self.counters.messages += 1;
            return Ok(());
        }
        let addresses = ip::addresses(packet).ok_or(Drop::BadIp)?;
        if addresses.destination.is_ipv4() != (protocol == Protocol::Ipv4) {
            return Err(Drop::BadIp);
        }
        if protocol == Protocol::Ipv6 {
            match ndp::parse(packet) {
                Parsed::Other => {}
                Parsed::Invalid => return Err(Drop::BadNeighbour),
                Parsed::Message(message) => {
                    if let Some(hardware) = &message.hardware {
                        is_genuine(hardware, source)?;
                        link.hear(source);
                    }
                    self.counters.messages += 1;
                    self.receive_neighbour(&message, source, now, link);
                    return Ok(());
                }
            }
        }
        if !link.deliver(packet) {
            return Err(Drop::Interface);
        }
        self.counters.delivered += 1;
        Ok(())
    }

    fn receive_arp(
        &mut self,
        message: &arp::Message,
        source: Source,
        now: u64,
        link: &mut impl Link,
    ) {
        let neighbour = Neighbour {
            hardware: message.sender,
            path: source.path,
        };
        if self.has(message.sender_ip.into()) {
            self.defend(message.sender_ip.into(), now, link);
            return;
        }
        let is_for_this = self.has(message.target_ip.into());
        let is_request = message.operation == arp::Operation::Request;
        if !message.sender_ip.is_unspecified() {
            let is_new = is_for_this && is_request;
            self.confirm(message.sender_ip.into(), neighbour, is_new, now, link);
        }
        if is_for_this && is_request {
            let answer = arp::Message {
                operation: arp::Operation::Reply,
                sender: self.interface.hardware,
                sender_ip: message.target_ip,
                target: message.sender.bytes(),
                target_ip: message.sender_ip,
            };
            let sent = link.answer(&neighbour, Protocol::Arp, &answer.bytes());
            self.count_answer(sent);
        }
    }

    fn receive_neighbour(
        &mut self,
        message: &ndp::Message,
        source: Source,
        now: u64,
        link: &mut impl Link,
    ) {
        let neighbour = message.hardware.map(|hardware| Neighbour {
            hardware,
            path: source.path,
        });
        let is_for_this = self.has(message.target.into());
        match (message.kind, neighbour) {
            (Kind::Advertisement { .. }, _) if is_for_this => {
                self.defend(message.target.into(), now, link);
            }
            (Kind::Advertisement { replaces, .. }, Some(neighbour)) => {
                let hardware = &neighbour.hardware;
                if !replaces && self.table.contradicts(message.target.into(), hardware) {
                    // RFC 4861 section 7.2.5.
                    return;
                }
                self.confirm(message.target.into(), neighbour, false, now, link);
            }
            (Kind::Advertisement { .. }, None) => {}
            (Kind::Solicitation, _) if !is_for_this => {}
            (Kind::Solicitation, Some(neighbour)) => {
                self.confirm(message.source.into(), neighbour, true, now, link);
                let kind = Kind::Advertisement {
                    is_solicited: true,
                    replaces: true,
                };
                let sent = self.advertise(kind, message.target, message.source, |_, packet| {
                    link.answer(&neighbour, Protocol::Ipv6, packet)
                });
                self.count_answer(sent);
            }
            (Kind::Solicitation, None) => {
                // A probe for a duplicate, or a sender without an address: all hear the answer.
                let sent = self.announce_one(message.target.into(), link);
                self.count_answer(sent);
            }
        }
    }

    /// Counts an answer if it was sent.
    fn count_answer(&mut self, sent: Sent) {
        self.counters.answers += u64::from(sent == Sent::Done);
    }

    /// Sends an advertisement of an address by `send`, which gets the destination's group, too.
    fn advertise(
        &self,
        kind: Kind,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        send: impl FnOnce(Gid, &[u8]) -> Sent,
    ) -> Sent {
        let message = ndp::Message {
            kind,
            source: target,
            destination,
            target,
            hardware: Some(self.interface.hardware),
        };
        let gid = group::of(destination.into(), self.interface.partition);
        send(gid, &message.packet())
    }

    /// Counts a conflict, and announces the address again unless that was done a moment ago.
    fn defend(&mut self, address: IpAddr, now: u64, link: &mut impl Link) {
        self.counters.conflicts += 1;
        if self.counters.conflicts == 1 {
            eprintln!(
                "verbena: warning: another interface also has the address {address}; give each its \
                 own --address"
            );
        }
        let last = self.defences.get(&address);
        if last.is_none_or(|last| last + DEFENCE_PAUSE <= now) {
            self.defences.insert(address, now);
            self.announce_one(address, link);
        }
    }

    fn confirm(&mut self, ip: IpAddr, at: Neighbour, is_new: bool, now: u64, link: &mut impl Link) {
        let (waiting, dropped) = self.table.confirm(ip, at, is_new, now);
        self.counters.drop(Drop::QueueFull, dropped);
        let protocol = if ip.is_ipv4() {
            Protocol::Ipv4
        } else {
            Protocol::Ipv6
        };
        for packet in waiting {
            self.send_taken(&at, protocol, &packet, now, link);
        }
    }

    /// Sends a packet to a neighbour that has been taken.
    fn send_taken(
        &mut self,
        at: &Neighbour,
        protocol: Protocol,
        packet: &[u8],
        now: u64,
        link: &mut impl Link,
    ) {
        let taken = match link.unicast(at, protocol, packet) {
            Sent::TooLong(mtu) => {
                self.take_too_long(packet, mtu, Drop::TooLongForNeighbour, now, link)
            }
            sent => self.count(sent, |counters| &mut counters.unicast),
        };
        match taken {
            Taken::Done => {}
            Taken::Busy => self.counters.drop(Drop::Stalled, 1),
            Taken::Cut(mtu) => self.send_cut(at, protocol, packet, mtu, link),
        }
    }

    /// Sends something that has waited for a path or a membership.
    pub fn resume(&mut self, one: &Waiting, now: u64, link: &mut impl Link) {
        match one {
            Waiting::Unicast(to, protocol, packet) => {
                self.send_taken(to, *protocol, packet, now, link);
            }
            Waiting::Answer(to, protocol, packet) => {
                let sent = link.answer(to, *protocol, packet);
                self.count_answer(sent);
            }
            Waiting::Multicast(group, protocol, packet, origin) => {
                let sent = link.multicast(*group, *protocol, packet, *origin);
                if *origin == Origin::Program
                    && self.count(sent, |counters| &mut counters.multicast) == Taken::Busy
                {
                    self.counters.drop(Drop::Stalled, 1);
                }
            }
            Waiting::Connect(message, source) => {
                if !link.connect(message, *source, now) {
                    self.counters.messages = self.counters.messages.saturating_sub(1);
                    self.counters.drop(Drop::BadConnection, 1);
                }
            }
        }
    }

    /// Drops something for which there is no path or membership.
    pub fn fail(&mut self, one: &Waiting, reason: Drop) {
        self.counters.drop(reason, u64::from(one.is_counted()));
    }

    /// Sends the fragments of a packet that has been taken.
    fn send_cut(
        &mut self,
        at: &Neighbour,
        protocol: Protocol,
        packet: &[u8],
        mtu: usize,
        link: &mut impl Link,
    ) {
        let Some(fragments) = fragment::cut(packet, mtu, 0) else {
            return self.counters.drop(Drop::TooLong, 1);
        };
        self.counters.taken += fragments.len() as u64 - 1;
        for fragment in fragments {
            let sent = link.unicast(at, protocol, &fragment);
            if self.count(sent, |counters| &mut counters.unicast) == Taken::Busy {
                self.counters.drop(Drop::Stalled, 1);
            }
        }
    }
}

/// Where a packet goes.
enum Route {
    Group(Gid),
    Neighbour(IpAddr),
}

/// Checks that a message states the hardware address of its sender: the GID of its route, or
/// without a route its queue pair. Packets go to no other port then; neighbours can still claim the
/// IP addresses of others, as with ARP on any link.
fn is_genuine(hardware: &HardwareAddress, source: Source) -> Result<(), Drop> {
    let is_genuine = match source.gid {
        Some(gid) => hardware.gid == gid,
        None => hardware.queue_pair == source.queue_pair,
    };
    if is_genuine {
        Ok(())
    } else {
        Err(Drop::Forged)
    }
}

#[cfg(test)]
mod tests;
