//! Capture of shared-memory traffic as the equivalent RoCEv2 packets ([`crate::capture`]).
//!
//! The requester captures all of it: a request when it is in flight or done, its answer when that
//! is known. So nothing is captured twice, and direct operations, which the peer cannot see, are
//! included. The same state machines make these packets as those on the wire. Differences to the
//! wire:
//!
//! - Every message has its own acknowledgement, after its last packet, where a device may
//!   acknowledge several at once.
//! - An unanswered request appears once, where a device repeats it after each timeout.
//! - No packet is lost or duplicated, except repetitions after an RNR NAK.

use super::SendQueue;
use super::packet_requester::acknowledge_every;
use super::packets::gather;
use super::single_request::SingleRequest;
use crate::ah::AddressHandle;
use crate::capture::{self, Seen};
use crate::device;
use crate::link;
use crate::qp::Qp;
use crate::qp::requester::outcome::Outcome;
use crate::qp::ring_message::Nak;
use crate::qp::send::{RequestProgress, SendRequest};
use crate::qp::terms::is_answered;
use crate::roce::path::leads_elsewhere;
use crate::roce::route::route;
use crate::roce::tx_batch::PACKET;
use std::net::Ipv6Addr;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::clock;
use verbena_hca_os::udp::Address;
use verbena_transport::reliable::{Reliable, Requester, requester};
use verbena_transport::request::SendRequest as Request;
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::segment::Segments;
use verbena_transport::unreliable;
use verbena_transport::{Instant, LocalError};
use verbena_wire::aeth::{Aeth, Credits, Syndrome};
use verbena_wire::atomic::AtomicAckEth;
use verbena_wire::bth::Bth;
use verbena_wire::opcode::{Operation as Wire, Place};
use verbena_wire::packet::{Extensions, Headers};
use verbena_wire::roce::{Route, seal};
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn, RnrTimer, udp};

/// Hop limit of captured packets.
const HOPS: u8 = 64;

impl Qp {
    /// As [`Qp::execute_request`], and captures shared-memory traffic.
    #[cold]
    pub(in crate::qp) fn execute_and_capture(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        let time = clock::wall();
        let is_tried_first = send.unanswered_since.is_none();
        // The bytes of an XRC write are at the responder; the record that follows only notifies a
        // third process.
        let is_notice = progress.is_placed && self.kind == IBV_QPT_XRC_SEND;
        let outcome = self.execute_request(send, request, index, psn, progress);
        let is_local = matches!(request.opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW);
        if is_local || is_notice || is_on_the_wire(send, request) {
            return outcome;
        }
        match outcome {
            Outcome::Sent => self.capture_request(send, request, psn, time),
            Outcome::NoAnswer if is_tried_first => self.capture_request(send, request, psn, time),
            Outcome::Done | Outcome::DoneLater => {
                self.capture_request(send, request, psn, time);
                self.capture_answer(send, request, index, psn);
            }
            _ => (),
        }
        outcome
    }

    /// Captures the acknowledgement of the request at `position`, unless its answer says more, or a
    /// notification must follow.
    #[cold]
    pub(super) fn capture_acknowledged(&self, send: &SendQueue, position: usize) {
        let Some(one) = send.pending.get(position) else {
            return;
        };
        let is_answered = is_answered(one.opcode) && one.opcode != IBV_WR_FLUSH;
        let awaits_notice = self.kind == IBV_QPT_XRC_SEND
            && one.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
            && !one.progress.is_placed;
        if !is_answered && !awaits_notice {
            self.capture_answer(send, &one.request(), one.index, one.psn);
        }
    }

    /// Captures the answer to the request with this PSN, whose bytes are in its buffers.
    #[cold]
    pub(super) fn capture_answered(&self, send: &mut SendQueue, psn: u32) {
        if let Some(position) = send.find_by_psn(psn)
            && let Some(one) = send.pending.get(position)
        {
            self.capture_answer(send, &one.request(), one.index, psn);
        }
    }

    /// Captures the responder's NAK for the request with this PSN.
    #[cold]
    pub(in crate::qp) fn capture_refused(&self, send: &mut SendQueue, psn: u32, nak: Nak) {
        let syndrome = match nak {
            Nak::ReceiverNotReady(timer) => RnrTimer::from_code(timer).map(Syndrome::RnrNak),
            Nak::Refused(code) => Some(Syndrome::Nak(code)),
            // Without an answer on the wire; and a request with unreadable buffers would not have
            // been sent.
            Nak::NoAnswer | Nak::SourceProtection => None,
        };
        let (Some(syndrome), Some(position)) = (syndrome, send.find_by_psn(psn)) else {
            return;
        };
        if let Some(one) = send.pending.get(position)
            && let Some(answers) = AnswerCapture::of(self, send, &one.request(), one.index)
        {
            // Earlier messages are done.
            let msn = answers.msn.wrapping_sub(1) & 0xff_ffff;
            answers.capture_syndrome(psn, syndrome, msn);
        }
    }

    fn capture_request(&self, send: &SendQueue, request: &SendRequest<'_>, psn: u32, time: u64) {
        let section = self.memory.own_marks().enter(0);
        let Ok(runs) = self.runs(&section, request, 0) else {
            return;
        };
        let Some(mut single) = SingleRequest::of(self, send, request, psn, &runs) else {
            return;
        };
        let Some(mut machine) = CapturingRequester::of(self, send, &single.request, psn) else {
            return;
        };
        let route = self.captured_route(send, request);
        let mut room = [0; PACKET];
        while let Some(length) = machine.make(&mut single, &mut room) {
            if let Ok(sealed) = seal(&route, length, &mut room) {
                capture::record_packet(Seen::Sent, time, &route, &room[..sealed]);
            }
        }
    }

    fn capture_answer(&self, send: &SendQueue, request: &SendRequest<'_>, index: u64, psn: u32) {
        let Some(answers) = AnswerCapture::of(self, send, request, index) else {
            return;
        };
        let section = self.memory.own_marks().enter(0);
        let Ok(runs) = self.runs(&section, request, 0) else {
            return;
        };
        match request.opcode {
            IBV_WR_RDMA_READ => answers.capture_read(send, psn, &runs),
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                answers.capture_atomic(psn, &runs);
            }
            IBV_WR_ATOMIC_WRITE | IBV_WR_FLUSH => {
                answers.capture_data(Wire::ReadResponseOnly, psn, 0, &runs, 0);
            }
            _ => {
                let last = send.packets(request.opcode, request.length()) - 1;
                let psn = psn.wrapping_add(last) & 0xff_ffff;
                answers.capture_syndrome(psn, Syndrome::Ack(Credits::UNLIMITED), answers.msn);
            }
        }
    }

    /// Returns the headers of a request's packets: the GIDs as addresses, as over RoCE.
    fn captured_route(&self, send: &SendQueue, request: &SendRequest<'_>) -> Route {
        let (vector, remote) = match request.address {
            Some(address) => (address.attributes(), request.remote_qpn),
            None => (&send.vector, send.destination),
        };
        let port = udp::source_port(Qpn::new(self.number), Qpn::new(remote));
        let address = |gid: ibv_gid, port| Address {
            ip: Ipv6Addr::from(gid.bytes()),
            port,
            scope: 0,
        };
        let source = device::gid_at(vector.port_num, vector.grh.sgid_index.into());
        let source = source.unwrap_or(device::gid(vector.port_num));
        // A LID leads to a port of this host.
        let destination = match vector.is_global {
            0 => device::port_towards(vector).map_or(source, device::gid),
            _ => vector.grh.dgid,
        };
        route(
            address(source, port),
            address(destination, udp::PORT),
            vector.grh.traffic_class,
            HOPS,
        )
    }
}

/// Returns whether a request is sent as packets, which are captured there.
fn is_on_the_wire(send: &SendQueue, request: &SendRequest<'_>) -> bool {
    // A RoCE multicast datagram goes to other hosts, too.
    let leaves = |address: &Arc<AddressHandle>| {
        let is_group = address.is_multicast() && link::is_ethernet();
        is_group || leads_elsewhere(address.attributes())
    };
    send.packets.is_some() || request.address.is_some_and(leaves)
}

/// Packet requester for one request.
enum CapturingRequester {
    Reliable(Box<Requester>),
    Unreliable(unreliable::Requester),
}

impl CapturingRequester {
    /// Creates the requester; None for a request that its service does not have.
    fn of(
        queue_pair: &Qp,
        send: &SendQueue,
        request: &Request,
        psn: u32,
    ) -> Option<CapturingRequester> {
        let destination = Qpn::new(send.destination);
        let (partition_key, initial_psn) = (PKey::DEFAULT, Psn::new(psn));
        let mtu = mtu(queue_pair, send)?;
        if let Some(service) = service_of(queue_pair.kind) {
            let machine = Requester::new(requester::Configuration {
                service,
                destination,
                partition_key,
                mtu,
                initial_psn,
                // No answer is awaited.
                ack_timeout: AckTimeout::INFINITE,
                retry_count: RetryCount::new(0)?,
                rnr_retry: RnrRetry::Infinite,
                window: u32::MAX,
                acknowledge_every: acknowledge_every(mtu),
            });
            machine.check(request).ok()?;
            return Some(CapturingRequester::Reliable(Box::new(machine)));
        }
        let machine = unreliable::Requester::new(unreliable::Configuration {
            service: match queue_pair.kind {
                IBV_QPT_UD => unreliable::Service::Datagram(Qpn::new(queue_pair.number)),
                _ => unreliable::Service::Connected(destination),
            },
            partition_key,
            mtu,
            initial_psn,
        });
        machine.check(request).ok()?;
        Some(CapturingRequester::Unreliable(machine))
    }

    /// Makes the next packet, and returns its length.
    fn make(&mut self, single: &mut SingleRequest<'_>, room: &mut [u8]) -> Option<usize> {
        match self {
            CapturingRequester::Reliable(machine) => {
                machine.poll_transmit(Instant(0), single, room).ok()?
            }
            CapturingRequester::Unreliable(machine) => machine.poll_transmit(single, room).ok()?,
        }
    }
}

/// Returns the service of a reliable queue pair.
fn service_of(kind: ibv_qp_type) -> Option<Reliable> {
    match kind {
        IBV_QPT_RC => Some(Reliable::Rc),
        IBV_QPT_XRC_SEND => Some(Reliable::Xrc),
        _ => None,
    }
}

fn mtu(queue_pair: &Qp, send: &SendQueue) -> Option<Mtu> {
    match queue_pair.kind {
        IBV_QPT_UD => Mtu::from_code(device::active_mtu(send.port) as u8),
        _ => Mtu::from_code((send.mtu / 128).trailing_zeros() as u8),
    }
}

/// Captures the answers to one request.
struct AnswerCapture {
    service: Reliable,
    route: Route,
    /// The requester's queue pair number.
    destination: Qpn,
    /// Number of completed messages, including this request's.
    msn: u32,
}

impl AnswerCapture {
    /// Creates the state; None for a queue pair without answers.
    fn of(
        queue_pair: &Qp,
        send: &SendQueue,
        request: &SendRequest<'_>,
        index: u64,
    ) -> Option<AnswerCapture> {
        Some(AnswerCapture {
            service: service_of(queue_pair.kind)?,
            route: queue_pair.captured_route(send, request).reversed(),
            destination: Qpn::new(queue_pair.number),
            msn: (index - send.first_index + 1) as u32 & 0xff_ffff,
        })
    }

    /// Captures an acknowledgement or NAK.
    fn capture_syndrome(&self, psn: u32, syndrome: Syndrome, msn: u32) {
        let extensions = Extensions {
            aeth: Some(Aeth { syndrome, msn }),
            ..Extensions::NONE
        };
        self.capture_packet(Wire::Acknowledge, psn, extensions, 0, |_| Ok(()));
    }

    /// Captures the result of an atomic.
    fn capture_atomic(&self, psn: u32, runs: &Runs<'_>) {
        let mut found = [0; 8];
        if gather(runs, 0, &mut found).is_ok() {
            let extensions = Extensions {
                aeth: Some(self.done()),
                atomic_ack_eth: Some(AtomicAckEth {
                    original: u64::from_ne_bytes(found),
                }),
                ..Extensions::NONE
            };
            self.capture_packet(Wire::AtomicAcknowledge, psn, extensions, 0, |_| Ok(()));
        }
    }

    /// Captures the response to a read.
    fn capture_read(&self, send: &SendQueue, psn: u32, runs: &Runs<'_>) {
        let Some(mtu) = Mtu::from_code((send.mtu / 128).trailing_zeros() as u8) else {
            return;
        };
        let segments = Segments {
            mtu,
            length: runs.total() as u32,
        };
        for index in 0..segments.count() {
            let segment = segments.get(0, index);
            let operation = match segment.place {
                Place::First => Wire::ReadResponseFirst,
                Place::Middle => Wire::ReadResponseMiddle,
                Place::Last => Wire::ReadResponseLast,
                Place::Only => Wire::ReadResponseOnly,
            };
            let psn = psn.wrapping_add(index) & 0xff_ffff;
            self.capture_data(operation, psn, segment.offset.into(), runs, segment.length);
        }
    }

    /// Captures one packet of a read response.
    fn capture_data(&self, operation: Wire, psn: u32, offset: u64, runs: &Runs<'_>, length: u32) {
        let extensions = Extensions {
            aeth: (operation != Wire::ReadResponseMiddle).then(|| self.done()),
            ..Extensions::NONE
        };
        let fill = |room: &mut [u8]| gather(runs, offset, room);
        self.capture_packet(operation, psn, extensions, length as usize, fill);
    }

    fn done(&self) -> Aeth {
        Aeth {
            syndrome: Syndrome::Ack(Credits::UNLIMITED),
            msn: self.msn,
        }
    }

    fn capture_packet(
        &self,
        operation: Wire,
        psn: u32,
        extensions: Extensions,
        payload: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), LocalError>,
    ) {
        let opcode = self.service.opcode(operation);
        let bth = Bth::new(opcode, self.destination, Psn::new(psn));
        let headers = Headers { bth, extensions };
        let mut room = [0; PACKET];
        let made = headers.emit_around(payload, &mut room);
        if made.is_ok_and(|place| fill(place).is_ok())
            && let Ok(sealed) = seal(&self.route, headers.packet_length(payload), &mut room)
        {
            capture::record_packet(Seen::Received, clock::wall(), &self.route, &room[..sealed]);
        }
    }
}
