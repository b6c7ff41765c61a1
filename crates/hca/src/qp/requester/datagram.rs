//! Sending unreliable datagrams: ibv_post_send(3) of a UD queue pair, and multicast.
//!
//! A datagram is one record and completes when it is in the channel. Drops are not reported.

use super::outcome::Outcome;
use crate::ah::AddressHandle;
use crate::causes::passage::Arrival;
use crate::fabric::Fabric;
use crate::link;
use crate::process::Outbound;
use crate::qp::Qp;
use crate::qp::backlog::WaitingDatagram;
use crate::qp::fabric::{GENERAL_SERVICES, GENERAL_SERVICES_KEY};
use crate::qp::multicast_groups::Loopback;
use crate::qp::ring_message::{Datagram, Endpoint, Request, Route};
use crate::qp::send::{SendQueue, SendRequest};
use crate::qp::terms::status_code;
use crate::roce::path::{NOWHERE, interface_towards, leads_elsewhere};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_shm::registry::Identity;
use verbena_transport::request::check_message;

impl Qp {
    #[inline]
    pub(super) fn send_datagram(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        psn: u32,
    ) -> Outcome {
        self.send_datagram_by(send, request, psn, |_| None)
    }

    /// As [`Qp::send_datagram`], for a datagram that a rule has arrive otherwise than once.
    #[cold]
    pub(super) fn send_datagram_as(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        psn: u32,
        arrival: Arrival,
    ) -> Outcome {
        match arrival {
            Arrival::Never => self.send_datagram_by(send, request, psn, |_| Some(Outcome::Done)),
            Arrival::Late => {
                self.send_datagram_by(send, request, psn, |packet| self.send_overtaken(packet?))
            }
            Arrival::Twice => match self.send_datagram(send, request, psn) {
                Outcome::Done => {
                    // If there is no space now, the copy is lost.
                    self.send_datagram(send, request, psn);
                    Outcome::Done
                }
                outcome => outcome,
            },
            Arrival::Once | Arrival::Unanswered => self.send_datagram(send, request, psn),
        }
    }

    /// Sends a datagram that those behind it overtake. None if it must be sent otherwise, as there
    /// is no channel to the receiver yet.
    fn send_overtaken(self: &Arc<Qp>, packet: &DatagramPacket<'_>) -> Option<Outcome> {
        let number = packet.route.destination.number;
        let channel = self.process.outbound_to_number(number)?;
        let waiting = self.copy_of(packet)?;
        let send = move || waiting.queue_pair.send_waiting(&channel, &waiting);
        self.link.as_ref()?.keep_back(send);
        Some(Outcome::Done)
    }

    /// Sends a datagram, unless `instead` returns an outcome for it. It is called with nothing
    /// once the request is checked, and then with the datagram if that goes to one queue pair
    /// through shared memory.
    #[inline(always)]
    fn send_datagram_by(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        psn: u32,
        instead: impl Fn(Option<&DatagramPacket<'_>>) -> Option<Outcome>,
    ) -> Outcome {
        let Some(address) = request.address else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let section = self.memory.own_marks().enter(0);
        let runs = match self.runs(&section, request, 0) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        let attributes = address.attributes();
        if attributes.port_num != send.port {
            // Address handle and queue pair must be of the same port.
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        if let Err(status) = check_message(runs.total(), crate::device::mtu_bytes(send.port)) {
            return Outcome::Failed(status_code(status));
        }
        if let Some(outcome) = instead(None) {
            return outcome;
        }
        if leads_elsewhere(attributes) {
            return self.send_datagram_packet(send, request, address, psn, &runs);
        }
        // No port of this host has that address, and there are no other hosts.
        if !address.is_multicast() && !is_reached(attributes) {
            return Outcome::Done;
        }
        let grh = address
            .is_global()
            .then(|| global_route(attributes, runs.total() as u16));
        let datagram = self.datagram(request, address);
        let route = Route {
            destination: Endpoint {
                number: request.remote_qpn & 0xff_ffff,
                incarnation: 0,
            },
            source: Endpoint {
                number: self.number,
                incarnation: self.incarnation(),
            },
            psn,
        };
        let packet = DatagramPacket {
            datagram,
            route,
            grh,
            runs: &runs,
        };
        if !datagram.is_multicast {
            if let Some(outcome) = instead(Some(&packet)) {
                return outcome;
            }
            return self.send_unicast(&packet, attributes);
        }
        if link::is_ethernet() {
            // To members on other hosts.
            let sent = self.send_datagram_packet(send, request, address, psn, &runs);
            if !matches!(sent, Outcome::Done) {
                return sent;
            }
        } else {
            self.process.counters.shard().send_operations.add(1);
        }
        if self.loopback == Loopback::Wanted {
            self.send_to_neighbours(&packet);
        }
        Outcome::Done
    }

    pub(in crate::qp) fn datagram(
        &self,
        request: &SendRequest<'_>,
        address: &AddressHandle,
    ) -> Datagram {
        Datagram {
            qkey: self.queue_key(request),
            immediate: (request.opcode == IBV_WR_SEND_WITH_IMM).then_some(request.immediate),
            solicited: request.is_solicited(),
            has_route: address.is_global(),
            is_multicast: address.is_multicast(),
            lid: crate::device::lid(address.attributes().port_num),
            service_level: service_level(address.attributes()),
            interface: address.interface(),
        }
    }

    /// Returns the queue key of a datagram: the queue pair's if the request's high bit is set.
    pub(in crate::qp) fn queue_key(&self, request: &SendRequest<'_>) -> u32 {
        match request.remote_qkey >> 31 {
            0 => request.remote_qkey,
            _ => self.lock_receive().qkey,
        }
    }

    fn send_unicast(self: &Arc<Qp>, packet: &DatagramPacket<'_>, vector: &ibv_ah_attr) -> Outcome {
        let number = packet.route.destination.number;
        let Some(channel) = self.process.outbound_to_number(number) else {
            let member = self.process.membership.get();
            let owner = member.and_then(|member| member.registry.owner(number));
            if owner.is_some() {
                return Outcome::Connect(number);
            }
            if let Some(fabric) = link::fabric().filter(|_| number == GENERAL_SERVICES) {
                self.send_management(fabric, packet, vector);
            }
            return Outcome::Done;
        };
        if channel.peer.is_dead() {
            return Outcome::Done;
        }
        self.process.counters.shard().send_operations.add(1);
        match self.push_datagram(&channel, packet) {
            Outcome::Sent => Outcome::Done,
            outcome => outcome,
        }
    }

    /// Sends a management datagram to the process that keeps the fabric. One with another length or
    /// queue key is lost.
    #[cold]
    fn send_management(&self, fabric: &Fabric, packet: &DatagramPacket<'_>, vector: &ibv_ah_attr) {
        let mut data = [0; verbena_fabric_protocol::datagram::DATA];
        if packet.runs.total() as usize != data.len()
            || packet.datagram.qkey != GENERAL_SERVICES_KEY
        {
            return;
        }
        // SAFETY: `data` is as long as the runs.
        if unsafe { packet.runs.gather(0, data.as_mut_ptr(), data.len()) }.is_err() {
            return;
        }
        fabric.send(&verbena_fabric_protocol::Datagram {
            port: vector.port_num,
            service_level: packet.datagram.service_level,
            lid: vector.dlid,
            queue_pair: self.number,
            peer: packet.route.destination.number,
            p_key: self.p_key().0,
            data,
        });
    }

    /// Sends to every process of this host that has joined any group; each selects its own members.
    /// A process whose channel is full misses the datagram, as a congested receiver would.
    fn send_to_neighbours(self: &Arc<Qp>, packet: &DatagramPacket<'_>) {
        let Some(member) = self.process.membership.get() else {
            return;
        };
        for identity in member.registry.multicast_members() {
            match self.process.channels.outbound_to(identity) {
                _ if self.process.backlog.wait_for(identity) => {
                    self.queue_until_connected(identity, packet)
                }
                Some(channel) if !channel.peer.is_dead() => self.push_multicast(&channel, packet),
                Some(_) => (),
                None => self.queue_until_connected(identity, packet),
            }
        }
    }

    fn queue_until_connected(self: &Arc<Qp>, identity: Identity, packet: &DatagramPacket<'_>) {
        let Some(waiting) = self.copy_of(packet) else {
            return;
        };
        let connect = || self.process.connect(identity, None);
        self.process.backlog.push(identity, waiting, connect);
    }

    /// Returns a copy of a datagram; none if its buffers cannot be read.
    fn copy_of(self: &Arc<Qp>, packet: &DatagramPacket<'_>) -> Option<WaitingDatagram<Qp>> {
        let mut bytes = vec![0u8; packet.runs.total() as usize];
        // SAFETY: `bytes` is as long as the runs.
        unsafe { packet.runs.gather(0, bytes.as_mut_ptr(), bytes.len()) }.ok()?;
        Some(WaitingDatagram {
            queue_pair: self.clone(),
            datagram: packet.datagram,
            route: packet.route,
            grh: packet.grh,
            bytes,
        })
    }

    /// Sends a datagram that waited for its channel or for its time.
    pub(crate) fn send_waiting(self: &Arc<Qp>, channel: &Outbound, waiting: &WaitingDatagram<Qp>) {
        let sge = [ibv_sge {
            addr: waiting.bytes.as_ptr() as u64,
            length: waiting.bytes.len() as u32,
            lkey: 0,
        }];
        let packet = DatagramPacket {
            datagram: waiting.datagram,
            route: waiting.route,
            grh: waiting.grh,
            runs: &Runs::inline(&sge),
        };
        self.push_multicast(channel, &packet);
    }

    fn push_multicast(&self, channel: &Outbound, packet: &DatagramPacket<'_>) {
        let header = Request::Datagram(packet.datagram).emit(&packet.route);
        channel.push_unawaited(header, packet.length(), |target| packet.fill(target));
        channel.peer.wake();
    }

    fn push_datagram(
        self: &Arc<Qp>,
        channel: &Arc<Outbound>,
        packet: &DatagramPacket<'_>,
    ) -> Outcome {
        let header = Request::Datagram(packet.datagram).emit(&packet.route);
        let pushed = channel.push(self, header, packet.length(), None, |target| {
            packet.fill(target)
        });
        self.pushed(channel, pushed, packet.runs.total())
    }
}

/// A datagram and its bytes.
struct DatagramPacket<'a> {
    datagram: Datagram,
    route: Route,
    grh: Option<[u8; 40]>,
    runs: &'a Runs<'a>,
}

impl DatagramPacket<'_> {
    fn length(&self) -> usize {
        self.grh.map_or(0, |grh| grh.len()) + self.runs.total() as usize
    }

    /// Writes route and data to `target`, which has space for them.
    fn fill(&self, target: *mut u8) -> verbena_hca_os::errno::Result<()> {
        let mut at = target;
        // SAFETY: `target` has space for route and data, as the doc comment requires.
        unsafe {
            if let Some(grh) = &self.grh {
                at.copy_from_nonoverlapping(grh.as_ptr(), grh.len());
                at = at.add(grh.len());
            }
            self.runs.gather(0, at, self.runs.total() as usize)
        }
    }
}

/// Returns whether an address vector that leads to no other host leads to a port of this one. A
/// sole InfiniBand port may be reached by any GID.
fn is_reached(attributes: &ibv_ah_attr) -> bool {
    if link::is_ethernet() || link::ports() > 1 {
        return interface_towards(attributes) != NOWHERE;
    }
    // A fabric was asked before ([`Qp::passes_fabric`]).
    let is_own = attributes.dlid == crate::device::LID || attributes.is_global != 0;
    is_own || link::fabric().is_some()
}

/// Returns the service level that the datagram's completion reports; over RoCE the header type.
fn service_level(attributes: &ibv_ah_attr) -> u8 {
    match link::is_ethernet() {
        false => attributes.sl & 15,
        true => crate::roce::header::kind(attributes.grh.dgid.bytes().into()),
    }
}

/// Returns the 40 bytes of a global route header (architecture specification, 8.3), or over RoCE of
/// the header in its place.
fn global_route(attributes: &ibv_ah_attr, data: u16) -> [u8; 40] {
    if let Some(interface) = link::interface(attributes.port_num) {
        let source = interface.entry(attributes.grh.sgid_index.into());
        let source = source.map_or(attributes.grh.dgid, |entry| entry.gid);
        return crate::roce::header::of_own_host(source, attributes, data);
    }
    const IB_TRANSPORT: u8 = 0x1b;
    let grh = &attributes.grh;
    let mut bytes = [0; 40];
    let version = 6u32 << 28 | u32::from(grh.traffic_class) << 20 | grh.flow_label & 0xf_ffff;
    bytes[..4].copy_from_slice(&version.to_be_bytes());
    // Base and datagram headers, payload, padding to four bytes, invariant CRC.
    let payload = 12 + 8 + data.next_multiple_of(4) + 4;
    bytes[4..6].copy_from_slice(&payload.to_be_bytes());
    bytes[6] = IB_TRANSPORT;
    bytes[7] = grh.hop_limit;
    bytes[8..24].copy_from_slice(&crate::device::gid(attributes.port_num).bytes());
    bytes[24..].copy_from_slice(&grh.dgid.bytes());
    bytes
}
