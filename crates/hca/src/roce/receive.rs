//! What comes to the port: whether it is whole, and which queue pair it is for (specification 9.6.1).

use super::path::{gid, route, with_identification};
use super::port::Port;
use super::{allow, group, inquiry};
use crate::capture::{self, Seen};
use crate::link::{self, Interface, is_link_local};
use crate::process::Process;
use crate::qp::Qp;
use crate::sys::clock;
use crate::sys::udp::{Address, Arrived, BUFFERS, Inbox};
use std::net::Ipv6Addr;
use std::sync::Arc;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::Packet;
use verbena_wire::roce::{Checked, Network, Route, open};
use verbena_wire::{Qpn, udp};

/// Times that buffers are taken from the kernel before others get their turn.
const BATCHES: usize = 8;

/// A packet that is whole, and what it came in.
pub struct Arrival<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// What it came in.
    pub route: &'a Route,
    /// The address that sent it.
    pub source: Ipv6Addr,
    /// The address of ours, or of a group, that it came to.
    pub destination: Ipv6Addr,
    /// The port of ours that it came to.
    pub port: u8,
}

/// The bits of a traffic class by which a switch says that it is congested (RFC 3168: CE).
const CONGESTION: u8 = 0b11;

impl Arrival<'_> {
    /// Whether it has met congestion on its way.
    fn is_marked(&self) -> bool {
        let class = match self.route.network {
            Network::V4(network) => network.tos,
            Network::V6(network) => network.traffic_class,
        };
        class & CONGESTION == CONGESTION
    }

    /// Whether it was sent to a multicast group.
    fn destination_is_group(&self) -> bool {
        group::address(gid(self.destination)).is_some()
    }
}

/// Tells of a datagram that came, and how its ICRC was found right, if it was.
#[cold]
fn tell(route: &Route, checked: Option<Checked>, datagram: &[u8]) {
    let (seen, route) = match checked {
        None => (Seen::Damaged, *route),
        Some(Checked::Exactly) => (Seen::Received, *route),
        Some(Checked::WithIdentification(identification)) => {
            (Seen::Received, with_identification(route, identification))
        }
    };
    capture::tell(seen, clock::wall(), &route, datagram);
}

impl Process {
    /// Takes what has come to the port and gives it to whom it is for. Returns whether there was anything to do.
    ///
    /// Whoever polls is told of its completions first; acknowledgements and responses leave when it looks again, or when
    /// the progress thread does.
    #[inline]
    pub(crate) fn receive_packets(&self) -> bool {
        let Some(port) = self.roce.get() else {
            return false;
        };
        if !port.has_to_answer() && !port.pace.is_due(clock::now()) {
            return false;
        }
        // Another thread that is at it does it for us.
        match port.inbox.try_lock() {
            Some(mut inbox) => {
                let worked = self.receive_from(port, &mut inbox);
                port.pace.looked(clock::now(), worked);
                worked
            }
            None => false,
        }
    }

    /// As [`Process::receive_packets`], but waits for a thread that is at it: what it leaves to be answered is ours to
    /// answer when it does not come back.
    pub(crate) fn receive_packets_before_sleep(&self) -> bool {
        match self.roce.get() {
            Some(port) => self.receive_from(port, &mut port.inbox.lock()),
            None => false,
        }
    }

    /// Whether something waits at the port to be taken, or to be answered. Takes nothing.
    pub(crate) fn has_packets(&self) -> bool {
        self.roce.get().is_some_and(Port::has_some)
    }

    fn receive_from(&self, port: &Port, inbox: &mut Inbox) -> bool {
        let Some(socket) = port.socket() else {
            return false;
        };
        let mut answering: Vec<Arc<Qp>> = Vec::new();
        let at = port.residence().port();
        let mut worked = self.answer(port, port.take_talkative());
        for _ in 0..BATCHES {
            let count = inbox.receive(socket);
            worked |= count > 0;
            for index in 0..count {
                if let Some(arrived) = inbox.arrived(index) {
                    self.sort(&arrived, at, &mut answering);
                }
            }
            port.note_talkative(answering.drain(..).map(|queue_pair| queue_pair.number()));
            if count < BUFFERS {
                break;
            }
            // A batch at a time and not a packet: so one acknowledgement stands for many.
            self.answer(port, port.take_talkative());
        }
        worked | self.receive_from_groups(port, inbox)
    }

    /// Takes what has come to groups that we have joined. Nobody answers it.
    fn receive_from_groups(&self, port: &Port, inbox: &mut Inbox) -> bool {
        let ready = port.groups.ready();
        for socket in &ready {
            for index in 0..inbox.receive(socket) {
                if let Some(arrived) = inbox.arrived(index) {
                    self.sort(&arrived, udp::PORT, &mut Vec::new());
                }
            }
        }
        !ready.is_empty()
    }

    /// Takes datagrams that no socket has brought, as if one had, and answers them: how a test is a network.
    pub fn take_datagrams(&self, arrived: &Arrived<'_>) {
        let mut answering = Vec::new();
        self.sort(arrived, udp::PORT, &mut answering);
        for queue_pair in answering {
            while queue_pair.answer_by_packets() {}
        }
    }

    /// The process is about to end: what was taken is acknowledged.
    pub(crate) fn answer_last_packets(&self) {
        if let Some(port) = self.roce.get() {
            self.answer(port, port.take_talkative());
        }
    }

    fn answer(&self, port: &Port, talkative: Vec<u32>) -> bool {
        let any = !talkative.is_empty();
        for number in talkative {
            if let Some(queue_pair) = self.queue_pairs.find(number)
                && queue_pair.answer_by_packets()
            {
                port.note_talkative([number]);
            }
        }
        any
    }

    /// Gives each packet that came to a UDP port of ours to its queue pair, and notes whom it was for: they may have something
    /// to answer.
    pub(super) fn sort(&self, arrived: &Arrived<'_>, at: u16, answering: &mut Vec<Arc<Qp>>) {
        if !allow::chosen().is_ok_and(|allowed| allowed.includes(arrived.source.ip)) {
            let datagrams = arrived.bytes.len().div_ceil(arrived.segment) as u64;
            self.counters.shard().foreign_packets.add(datagrams);
            return;
        }
        let Some(port) = port_of(arrived) else {
            return;
        };
        if arrived.bytes.is_empty() {
            return self.take_question();
        }
        let to = Address {
            ip: arrived.destination,
            port: at,
            scope: 0,
        };
        let plain = route(arrived.source, to, arrived.traffic_class, arrived.hop_limit);
        let datagrams = || arrived.bytes.chunks(arrived.segment).enumerate();
        let mut take = |(index, datagram): (usize, &[u8])| {
            // What the sender's kernel gave the segments of one call; others are worked out.
            let route = with_identification(&plain, index as u16);
            self.take_datagram(arrived, port, &route, datagram, answering);
        };
        if are_acknowledgements_behind_requests(arrived) {
            datagrams()
                .filter(|one| is_acknowledgement(one.1))
                .for_each(&mut take);
            datagrams()
                .filter(|one| !is_acknowledgement(one.1))
                .for_each(&mut take);
        } else {
            datagrams().for_each(&mut take);
        }
    }

    fn take_datagram(
        &self,
        arrived: &Arrived<'_>,
        port: u8,
        route: &Route,
        datagram: &[u8],
        answering: &mut Vec<Arc<Qp>>,
    ) {
        let opened = open(route, datagram);
        if capture::is_on() {
            tell(
                route,
                opened.as_ref().ok().map(|(_, checked)| *checked),
                datagram,
            );
        }
        let Ok((bytes, _)) = opened else {
            return self.take_what_is_no_packet(arrived, route, datagram);
        };
        let Ok(packet) = Packet::parse(bytes) else {
            return;
        };
        let arrival = Arrival {
            packet,
            route,
            source: arrived.source.ip,
            destination: arrived.destination,
            port,
        };
        if route.destination_port != udp::PORT {
            self.counters.shard().private_port_packets.add(1);
        }
        self.hand_over(&arrival, answering);
    }

    /// Damaged, or the question whether we are here.
    #[cold]
    fn take_what_is_no_packet(&self, arrived: &Arrived<'_>, route: &Route, datagram: &[u8]) {
        if route.destination_port != udp::PORT
            && let Some(answer) = inquiry::answer_to(datagram)
            && let Some(socket) = self.roce.get().and_then(Port::management_socket)
        {
            // Lost if it cannot leave: who asks will ask again.
            let _ = socket.answer(arrived, &answer);
            return;
        }
        self.counters.shard().damaged_packets.add(1);
    }

    fn hand_over(&self, arrival: &Arrival<'_>, answering: &mut Vec<Arc<Qp>>) {
        let bth = &arrival.packet.headers.bth;
        if bth.destination == Qpn::GSI {
            self.counters.shard().packets_received.add(1);
            return self.take_management(arrival);
        }
        if arrival.destination_is_group() {
            return self.take_group_datagram(arrival);
        }
        let number = bth.destination.value();
        // One packet is mostly for the queue pair that the one before was for, which is at hand.
        if answering.last().is_none_or(|last| last.number() != number) {
            let Some(queue_pair) = self.queue_pairs.find(number) else {
                return;
            };
            answering.push(queue_pair);
        }
        let Some(queue_pair) = answering.last() else {
            return;
        };
        self.counters.shard().packets_received.add(1);
        if arrival.is_marked() && bth.opcode.service() != Service::Congestion {
            queue_pair.note_congestion(arrival);
        }
        match bth.opcode.service() {
            Service::Ud => queue_pair.take_datagram_packet(arrival),
            Service::Congestion => queue_pair.take_congestion_notification(arrival),
            Service::Rc | Service::Xrc | Service::Uc if bth.opcode.operation().is_request() => {
                queue_pair.serve_packet(arrival);
            }
            Service::Rc | Service::Xrc | Service::Uc => queue_pair.take_response(arrival),
        }
    }

    /// A datagram for all queue pairs that are attached to a group (specification 9.8.3, 10.5).
    fn take_group_datagram(&self, arrival: &Arrival<'_>) {
        let bth = &arrival.packet.headers.bth;
        if bth.destination != Qpn::MULTICAST || bth.opcode.service() != Service::Ud {
            return;
        }
        self.counters.shard().packets_received.add(1);
        for queue_pair in self
            .groups
            .members(arrival.port, &arrival.destination.octets())
        {
            queue_pair.take_datagram_packet(arrival);
        }
    }
}

/// Whether these are requests and, behind one of them, an acknowledgement, as they leave a queue pair of ours
/// ([`Qp::answer_behind`]). Acknowledgements are taken first then: who sees what it was sent finds complete what it had sent
/// before. The two are of opposite directions, which have no order between them; responses are of the same as acknowledgements.
fn are_acknowledgements_behind_requests(arrived: &Arrived<'_>) -> bool {
    let datagrams = || arrived.bytes.chunks(arrived.segment);
    datagrams().next().is_some_and(is_request)
        && datagrams().any(is_acknowledgement)
        && datagrams().all(|one| is_request(one) || is_acknowledgement(one))
}

fn is_request(datagram: &[u8]) -> bool {
    operation(datagram).is_some_and(Operation::is_request)
}

fn is_acknowledgement(datagram: &[u8]) -> bool {
    operation(datagram) == Some(Operation::Acknowledge)
}

fn operation(datagram: &[u8]) -> Option<Operation> {
    Some(Opcode::from_code(*datagram.first()?)?.operation())
}

/// Which port of ours datagrams were sent to by another host. UDP's is open on all addresses of this one, and ours are
/// those of the interfaces, whichever of them a packet came through; but a link-local address or a group means something
/// with its interface alone. What this host itself sends to a group has gone through shared memory already.
fn port_of(arrived: &Arrived<'_>) -> Option<u8> {
    let is_group = group::address(gid(arrived.destination)).is_some();
    let needs_its_own = is_group || is_link_local(&arrived.destination);
    let concerns = |interface: &Interface| {
        let has = |ip| interface.index_of(gid(ip)).is_some();
        let is_for_us = match is_group {
            true => !has(arrived.source.ip),
            false => has(arrived.destination),
        };
        is_for_us && (!needs_its_own || interface.index == arrived.interface)
    };
    let found = link::interfaces().find(|(_, interface)| concerns(interface));
    found.map(|(port, _)| port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEND_ONLY: u8 = 0x04;
    const READ_RESPONSE_ONLY: u8 = 0x10;
    const ACKNOWLEDGE: u8 = 0x11;
    const RESERVED: u8 = 0x15;

    /// Whether datagrams that begin with these are taken for it: of 32 bytes, the last of 20.
    fn is_it(first_bytes: &[u8]) -> bool {
        const SEGMENT: usize = 32;
        let mut bytes = vec![0; SEGMENT * first_bytes.len()];
        for (datagram, first) in bytes.chunks_mut(SEGMENT).zip(first_bytes) {
            datagram[0] = *first;
        }
        bytes.truncate(bytes.len().saturating_sub(12));
        let nobody = Address {
            ip: Ipv6Addr::UNSPECIFIED,
            port: 0,
            scope: 0,
        };
        are_acknowledgements_behind_requests(&Arrived {
            source: nobody,
            destination: Ipv6Addr::UNSPECIFIED,
            traffic_class: 0,
            hop_limit: 0,
            interface: 0,
            bytes: &bytes,
            segment: SEGMENT,
        })
    }

    #[test]
    fn an_acknowledgement_overtakes_requests_before_it_and_nothing_else() {
        assert!(is_it(&[SEND_ONLY, ACKNOWLEDGE]));
        // The first was sent again, or is of a message of several.
        assert!(is_it(&[SEND_ONLY, ACKNOWLEDGE, SEND_ONLY]));
        assert!(is_it(&[SEND_ONLY, SEND_ONLY, ACKNOWLEDGE]));
        for others in [
            // Of one direction, in which order means something.
            &[READ_RESPONSE_ONLY, ACKNOWLEDGE][..],
            &[SEND_ONLY, READ_RESPONSE_ONLY],
            &[ACKNOWLEDGE, SEND_ONLY],
            &[SEND_ONLY, ACKNOWLEDGE, READ_RESPONSE_ONLY],
            &[SEND_ONLY, SEND_ONLY],
            &[RESERVED, ACKNOWLEDGE],
            &[SEND_ONLY, ACKNOWLEDGE, RESERVED],
            &[SEND_ONLY],
            &[],
        ] {
            assert!(!is_it(others), "{others:x?}");
        }
    }
}
