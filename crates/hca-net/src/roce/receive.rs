//! Reception at the UDP port: integrity check and dispatch to queue pairs (specification 9.6.1).

use super::adapter::{Adapter, QueuePair};
use super::packet::ReceivedPacket;
use super::port::Port;
use super::route::{gid, route};
use super::{allow, management, port_probe};
use crate::capture::{self, Seen};
use crate::link::{self, Interface, is_link_local};
use std::sync::Arc;
use verbena_hca_os::clock;
use verbena_hca_os::udp::{Address, Arrived, BUFFERS, Inbox};
use verbena_wire::icrc::Series;
use verbena_wire::middles::Middles;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::Packet;
use verbena_wire::roce::{Checked, Route, open_in};
use verbena_wire::{Qpn, udp};

/// Receive calls before other work gets its turn.
const BATCHES: usize = 8;

/// Captures a received datagram; `checked` says how its ICRC matched, if it did.
#[cold]
fn capture_received(route: &Route, checked: Option<Checked>, datagram: &[u8]) {
    let (seen, route) = match checked {
        None => (Seen::Damaged, *route),
        Some(Checked::Exactly) => (Seen::Received, *route),
        Some(Checked::WithIdentification(identification)) => {
            (Seen::Received, route.with_identification(identification))
        }
    };
    capture::record_packet(seen, clock::wall(), &route, datagram);
}

/// Datagrams that came in one buffer.
struct Buffer<'a> {
    arrived: &'a Arrived<'a>,
    /// The local port.
    port: u8,
    /// Headers of the first.
    route: &'a Route,
}

/// Reception of packets for an adapter.
pub struct Packets<'a, A> {
    pub(super) adapter: &'a A,
}

impl<'a, A: Adapter> Packets<'a, A> {
    /// Returns the reception for an adapter.
    #[inline]
    pub fn of(adapter: &'a A) -> Packets<'a, A> {
        Packets { adapter }
    }

    /// Receives from the port and dispatches to queue pairs. Returns whether there was anything to
    /// do.
    ///
    /// Completions reach a polling thread before answers leave: acknowledgements and responses are
    /// sent at its next poll, or by the progress thread.
    #[inline]
    pub fn receive(&self) -> bool {
        self.adapter
            .port()
            .is_some_and(|port| self.receive_at(port))
    }

    #[inline(never)]
    fn receive_at(&self, port: &Port) -> bool {
        if !port.has_to_answer() && !port.pace.is_due(clock::now()) {
            return false;
        }
        // If another thread is receiving, it does this thread's work as well.
        match port.inbox.try_lock() {
            Some(mut inbox) => {
                let worked = self.receive_from(port, &mut inbox);
                port.pace.looked(clock::now(), worked);
                worked
            }
            None => false,
        }
    }

    /// As [`Packets::receive`], but waits for a thread that is receiving: answers that it
    /// leaves pending are then sent here, because it may not return.
    pub fn receive_before_sleep(&self) -> bool {
        match self.adapter.port() {
            Some(port) => self.receive_from(port, &mut port.inbox.lock()),
            None => false,
        }
    }

    /// Returns whether packets or answers are pending. Receives nothing.
    pub fn has_some(&self) -> bool {
        self.adapter.port().is_some_and(Port::has_some)
    }

    fn receive_from(&self, port: &Port, inbox: &mut Inbox) -> bool {
        let Some(socket) = port.socket() else {
            return false;
        };
        let mut answering: Vec<Arc<A::QueuePair>> = Vec::new();
        let at = port.udp_port().port();
        let mut worked = self.answer(port, port.take_pending_acks());
        for _ in 0..BATCHES {
            let count = inbox.receive(socket);
            worked |= count > 0;
            for index in 0..count {
                if let Some(arrived) = inbox.arrived(index) {
                    self.dispatch(&arrived, at, &mut answering);
                }
            }
            port.note_pending_acks(answering.drain(..).map(|queue_pair| queue_pair.number()));
            if count < BUFFERS {
                break;
            }
            // Once per batch rather than per packet, so that one acknowledgement covers many
            // packets.
            self.answer(port, port.take_pending_acks());
        }
        worked | self.receive_from_groups(port, inbox)
    }

    /// Receives datagrams to groups that this process has joined. They are not answered.
    fn receive_from_groups(&self, port: &Port, inbox: &mut Inbox) -> bool {
        let ready = port.groups.ready();
        for socket in &ready {
            for index in 0..inbox.receive(socket) {
                if let Some(arrived) = inbox.arrived(index) {
                    self.dispatch(&arrived, udp::PORT, &mut Vec::new());
                }
            }
        }
        !ready.is_empty()
    }

    /// Takes datagrams as if a socket had received them, and answers them. Lets tests replace the
    /// network.
    pub fn take_datagrams(&self, arrived: &Arrived<'_>) {
        let mut answering = Vec::new();
        self.dispatch(arrived, udp::PORT, &mut answering);
        for queue_pair in answering {
            while queue_pair.answer_by_packets() {}
        }
    }

    /// Acknowledges received requests before the process ends.
    pub fn answer_last(&self) {
        if let Some(port) = self.adapter.port() {
            self.answer(port, port.take_pending_acks());
        }
    }

    fn answer(&self, port: &Port, pending_acks: Vec<u32>) -> bool {
        let any = !pending_acks.is_empty();
        for number in pending_acks {
            if let Some(queue_pair) = self.adapter.queue_pair(number)
                && queue_pair.answer_by_packets()
            {
                port.note_pending_acks([number]);
            }
        }
        any
    }

    /// Dispatches packets that came to UDP port `at` to their queue pairs, and adds those queue
    /// pairs to `answering`: they may have answers to send.
    pub(super) fn dispatch(
        &self,
        arrived: &Arrived<'_>,
        at: u16,
        answering: &mut Vec<Arc<A::QueuePair>>,
    ) {
        if !allow::chosen().is_ok_and(|allowed| allowed.includes(arrived.source.ip)) {
            let datagrams = arrived.bytes.len().div_ceil(arrived.segment) as u64;
            self.adapter
                .counters()
                .shard()
                .foreign_packets
                .add(datagrams);
            return;
        }
        let Some(port) = port_of(arrived) else {
            return;
        };
        if arrived.bytes.is_empty() {
            return management::take_question();
        }
        let to = Address {
            ip: arrived.destination,
            port: at,
            scope: 0,
        };
        let plain = route(arrived.source, to, arrived.traffic_class, arrived.hop_limit);
        let buffer = Buffer {
            arrived,
            port,
            route: &plain,
        };
        let mut series = Series::new(&plain);
        let datagrams = || arrived.bytes.chunks(arrived.segment).enumerate();
        if are_acknowledgements_behind_requests(arrived) {
            let (first, then): (Vec<_>, Vec<_>) =
                datagrams().partition(|one| is_acknowledgement(one.1));
            for (index, datagram) in first.into_iter().chain(then) {
                self.take_datagram(&buffer, &mut series, index, datagram, answering);
            }
            return;
        }
        // Number of datagrams that must be taken one by one.
        let mut single = 0;
        let mut at = 0;
        while let Some(rest) = arrived.bytes.get(at * arrived.segment..)
            && !rest.is_empty()
        {
            if single == 0
                && let Some(middles) = Middles::at_front(rest, arrived.segment)
            {
                let taken = self.take_middles(&buffer, &mut series, at, &middles, answering);
                at += taken;
                single = middles.count() as usize - taken;
                continue;
            }
            let datagram = &rest[..rest.len().min(arrived.segment)];
            self.take_datagram(&buffer, &mut series, at, datagram, answering);
            at += 1;
            single = single.saturating_sub(1);
        }
    }

    /// Takes intact packets of these at the front if that has the same effect as to take each, and
    /// returns their number. The first has index `at` in the buffer.
    fn take_middles(
        &self,
        buffer: &Buffer<'_>,
        series: &mut Series,
        at: usize,
        middles: &Middles<'_>,
        answering: &mut Vec<Arc<A::QueuePair>>,
    ) -> usize {
        let first = ReceivedPacket {
            packet: middles.first_packet(),
            route: buffer.route,
            source: buffer.arrived.source.ip,
            destination: buffer.arrived.destination,
            port: buffer.port,
        };
        if capture::is_on() || first.is_marked() || first.destination_is_group() {
            return 0;
        }
        let is_intact = |(index, datagram): &(usize, &[u8])| {
            let opened = open_in(series, *index as u16, datagram);
            matches!(opened, Ok((_, Checked::Exactly)))
        };
        let intact = (at..).zip(middles.datagrams()).take_while(is_intact);
        let Some(middles) = middles.first(intact.count()) else {
            return 0;
        };
        let number = first.packet.headers.bth.destination.value();
        let Some(queue_pair) = self.answering_queue_pair(number, answering) else {
            return 0;
        };
        if !queue_pair.serve_middles(&first, &middles) {
            return 0;
        }
        let (count, counters) = (middles.count(), self.adapter.counters().shard());
        counters.packets_received.add(count.into());
        if buffer.route.destination_port != udp::PORT {
            counters.private_port_packets.add(count.into());
        }
        count as usize
    }

    fn take_datagram(
        &self,
        buffer: &Buffer<'_>,
        series: &mut Series,
        index: usize,
        datagram: &[u8],
        answering: &mut Vec<Arc<A::QueuePair>>,
    ) {
        let Buffer { arrived, port, .. } = *buffer;
        // IPv4 identification that the sender's kernel gives the segments of one call; others are
        // derived when the ICRC is checked.
        let route = &buffer.route.with_identification(index as u16);
        let opened = open_in(series, index as u16, datagram);
        if capture::is_on() {
            capture_received(
                route,
                opened.as_ref().ok().map(|(_, checked)| *checked),
                datagram,
            );
        }
        let Ok((bytes, _)) = opened else {
            return self.take_non_packet(arrived, route, datagram);
        };
        let Ok(packet) = Packet::parse(bytes) else {
            return;
        };
        let received = ReceivedPacket {
            packet,
            route,
            source: arrived.source.ip,
            destination: arrived.destination,
            port,
        };
        if route.destination_port != udp::PORT {
            self.adapter.counters().shard().private_port_packets.add(1);
        }
        self.deliver(&received, answering);
    }

    /// Handles a datagram that is not an intact packet: a port probe or a damaged packet.
    #[cold]
    fn take_non_packet(&self, arrived: &Arrived<'_>, route: &Route, datagram: &[u8]) {
        if route.destination_port != udp::PORT
            && let Some(answer) = port_probe::answer_to(datagram)
            && let Some(socket) = self.adapter.port().and_then(Port::management_socket)
        {
            // Lost if it cannot be sent now; the peer probes again.
            let _ = socket.answer(arrived, &answer);
            return;
        }
        self.adapter.counters().shard().damaged_packets.add(1);
    }

    fn deliver(&self, received: &ReceivedPacket<'_>, answering: &mut Vec<Arc<A::QueuePair>>) {
        let bth = &received.packet.headers.bth;
        if bth.destination == Qpn::GSI {
            self.adapter.counters().shard().packets_received.add(1);
            return self.take_management(received);
        }
        if received.destination_is_group() {
            return self.take_group_datagram(received);
        }
        let number = bth.destination.value();
        let Some(queue_pair) = self.answering_queue_pair(number, answering) else {
            return;
        };
        self.adapter.counters().shard().packets_received.add(1);
        if received.is_marked() && bth.opcode.service() != Service::Congestion {
            queue_pair.note_congestion(received);
        }
        match bth.opcode.service() {
            Service::Ud => queue_pair.take_datagram_packet(received),
            Service::Congestion => queue_pair.take_congestion_notification(received),
            Service::Rc | Service::Xrc | Service::Uc if bth.opcode.operation().is_request() => {
                queue_pair.serve_packet(received);
            }
            Service::Rc | Service::Xrc | Service::Uc => queue_pair.take_response(received),
        }
    }

    /// Returns the queue pair with a number, added to `answering`.
    fn answering_queue_pair<'q>(
        &self,
        number: u32,
        answering: &'q mut Vec<Arc<A::QueuePair>>,
    ) -> Option<&'q Arc<A::QueuePair>> {
        // Consecutive packets are mostly for the same queue pair.
        if answering.last().is_none_or(|last| last.number() != number) {
            answering.push(self.adapter.queue_pair(number)?);
        }
        answering.last()
    }

    /// Delivers a datagram to all queue pairs attached to a group (specification 9.8.3, 10.5).
    fn take_group_datagram(&self, received: &ReceivedPacket<'_>) {
        let bth = &received.packet.headers.bth;
        if bth.destination != Qpn::MULTICAST || bth.opcode.service() != Service::Ud {
            return;
        }
        self.adapter.counters().shard().packets_received.add(1);
        for queue_pair in self
            .adapter
            .members(received.port, &received.destination.octets())
        {
            queue_pair.take_datagram_packet(received);
        }
    }
}

/// Returns whether these are requests followed by an acknowledgement, as a queue pair sends them
/// (`qp/responder`). Acknowledgements are then taken first, so that a program that sees a
/// message finds its own earlier requests complete. The two belong to opposite directions, which
/// are not ordered; responses belong to the same direction as acknowledgements.
#[inline]
fn are_acknowledgements_behind_requests(arrived: &Arrived<'_>) -> bool {
    let datagrams = || arrived.bytes.chunks(arrived.segment);
    datagrams().next().is_some_and(is_request)
        && datagrams().any(is_acknowledgement)
        && datagrams().all(|one| is_request(one) || is_acknowledgement(one))
}

#[inline]
fn is_request(datagram: &[u8]) -> bool {
    operation(datagram).is_some_and(Operation::is_request)
}

#[inline]
fn is_acknowledgement(datagram: &[u8]) -> bool {
    operation(datagram) == Some(Operation::Acknowledge)
}

#[inline]
fn operation(datagram: &[u8]) -> Option<Operation> {
    Some(Opcode::from_code(*datagram.first()?)?.operation())
}

/// Returns the local port that another host sent datagrams to. The UDP socket is open on all
/// addresses of this host; ours are those of the interfaces, whichever interface a packet came
/// through, except that link-local and multicast addresses are only valid with their interface.
/// Datagrams that this host sent to a group have already been delivered through shared memory.
#[inline]
fn port_of(arrived: &Arrived<'_>) -> Option<u8> {
    let is_group = link::ip_group(gid(arrived.destination)).is_some();
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
    use std::net::Ipv6Addr;

    const SEND_ONLY: u8 = 0x04;
    const READ_RESPONSE_ONLY: u8 = 0x10;
    const ACKNOWLEDGE: u8 = 0x11;
    const RESERVED: u8 = 0x15;

    /// Returns the result for datagrams with these first bytes, of 32 bytes each, the last of 20.
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
    fn acknowledgement_overtakes_only_preceding_requests() {
        assert!(is_it(&[SEND_ONLY, ACKNOWLEDGE]));
        // The first request is a retransmission, or part of a multi-packet message.
        assert!(is_it(&[SEND_ONLY, ACKNOWLEDGE, SEND_ONLY]));
        assert!(is_it(&[SEND_ONLY, SEND_ONLY, ACKNOWLEDGE]));
        for others in [
            // One direction, in which order matters.
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
