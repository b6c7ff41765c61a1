//! Queue pair 1, the general service interface (specification 13.2): management datagrams between
//! hosts.
//!
//! A host has one queue pair 1; here all its processes share it. Any of them sends from it.
//! Received datagrams are dispatched by the kernel (`steering`):
//!
//! - A message of a conversation of this process comes to its own slot, with the packets of its
//!   queue pairs.
//! - A message that begins a conversation comes to slot 0. All processes read slot 0, and one that
//!   is awake takes the message. A stopped or busy process does not delay it, and a process that
//!   dies loses at most the message that it had just taken, which is sent again.
//!
//! The [`Agent`] handles the messages: the connection manager, if the process has one. It is called
//! by any thread that receives packets and must not block.

use super::adapter::Adapter;
use super::fallback::{thread as fallback, udp_probe};
use super::management_port::packet;
use super::packet::ReceivedPacket;
use super::path::Path;
use super::port::Port;
use super::receive::Packets;
use super::route::gid;
use super::sender::udp_port_of;
use super::tx_batch::TxBatch;
use super::udp_port::UdpPort;
use crate::link;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread;
use verbena_abi::{ibv_ah_attr, ibv_global_route};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::udp::Address;
use verbena_wire::mad;
use verbena_wire::opcode::{Operation, Service};
use verbena_wire::{PKey, Psn, QKey};

pub use super::steering::SLOT_BITS;

/// A management datagram with the addresses of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmMad {
    /// Local interface that it came through or leaves through, by the kernel's index: a link-local
    /// address alone does not identify an interface, and each process numbers its ports
    /// differently.
    pub interface: u32,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// UDP port at which the peer receives, if it is a Verbena adapter.
    pub udp_port: UdpPort,
    /// The datagram.
    pub mad: [u8; mad::LENGTH],
}

/// Callbacks for received messages.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    /// Called with a received datagram.
    pub received: fn(CmMad),
    /// Called when another host has checked for a RoCE port here ([`Port::probe_port`]).
    pub question: fn(),
}

static AGENT: OnceLock<Agent> = OnceLock::new();

/// Sets the callbacks. Only the first call has an effect.
pub fn set_agent(agent: Agent) {
    let _ = AGENT.set(agent);
}

/// Receive calls before other work gets its turn.
const BATCHES: usize = 8;
/// Hop limit of datagrams, as Linux sets it for communication management.
const HOP_LIMIT: u8 = 64;

impl Port {
    /// Sends an empty datagram to a RoCE port, where it is dropped. If the port is closed, the host
    /// reports that ([`Port::take_management_failures`]).
    ///
    /// # Errors
    /// As [`send`].
    pub fn probe_port(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        udp_port: UdpPort,
    ) -> Result<()> {
        path_between(self, interface, source, destination)?
            .towards_known(udp_port, &self.probe_cache)
            .send(&[], 0)
    }

    /// Returns the private ports of a host at which Verbena adapters receive. Probes each of them,
    /// and waits for the answers or for the end of the probes.
    ///
    /// # Errors
    /// As [`send`].
    pub fn private_udp_ports(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<Vec<UdpPort>> {
        let path = &path_between(self, interface, source, destination)?;
        let is_there = |udp_port: &UdpPort| path.leads_to_verbena(*udp_port, &self.probe_cache);
        let private = UdpPort::all().filter(|udp_port| udp_port.is_private());
        // In parallel: where probes are dropped, each takes its full time.
        Ok(thread::scope(|scope| {
            let ask = |udp_port| {
                let asking = move || Some(udp_port).filter(is_there);
                thread::Builder::new().spawn_scoped(scope, asking).ok()
            };
            let asked: Vec<_> = private.filter_map(ask).collect();
            let answers = asked.into_iter().filter_map(|of| of.join().ok());
            answers.flatten().collect()
        }))
    }

    /// Returns the destinations that datagrams from here did not reach, as far as ICMP errors have
    /// arrived.
    pub fn take_management_failures(&self) -> Vec<(Address, Errno)> {
        self.management_senders.take_failures()
    }
}

impl<A: Adapter> Packets<'_, A> {
    /// Receives from slot 0, unless another process was faster.
    pub fn receive_management(&self, port: &Port) {
        let Some(socket) = port.management_socket() else {
            return;
        };
        let mut inbox = port
            .management
            .inbox
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        for _ in 0..BATCHES {
            let count = inbox.receive(socket);
            if count == 0 {
                return;
            }
            for arrived in (0..count).filter_map(|index| inbox.arrived(index)) {
                // Only management messages are steered here, and no queue pair answers them.
                self.dispatch(&arrived, port.udp_port().port(), &mut Vec::new());
            }
        }
    }

    pub(super) fn take_management(&self, received: &ReceivedPacket<'_>) {
        let headers = &received.packet.headers;
        let is_right = headers.bth.opcode.service() == Service::Ud
            && headers.bth.opcode.operation() == Operation::SendOnly
            && headers.bth.partition_key.admits(PKey::DEFAULT)
            && headers
                .extensions
                .deth
                .is_some_and(|deth| deth.queue_key == QKey::GSI);
        if let Ok(mad) = received.packet.payload.try_into()
            && is_right
        {
            if let Some(port) = self.adapter.port() {
                port.management.note_answer(received.source);
                if let Some(token) = udp_probe::token_of(&mad) {
                    return port.fallback.note_probe(token);
                }
            }
            let Some(agent) = AGENT.get() else {
                return;
            };
            (agent.received)(CmMad {
                interface: link::interface_number(received.port),
                source: received.source,
                destination: received.destination,
                udp_port: udp_port_of(received.route.source_port),
                mad,
            });
        }
    }
}

/// Sends a datagram from a local address, without confirmation of delivery.
///
/// # Errors
/// ENODEV without a RoCE port, EADDRNOTAVAIL if the source is not an address of the port; as
/// [`Path::of`].
pub fn send<A: Adapter>(adapter: &Arc<A>, cm_mad: &CmMad) -> Result<()> {
    let port = adapter.port().ok_or(Errno(libc::ENODEV))?;
    let path = path_between(port, cm_mad.interface, cm_mad.source, cm_mad.destination)?
        .towards(cm_mad.udp_port, &port.probe_cache);
    if port.management.is_unanswered(cm_mad.destination) {
        fallback::examine_udp(adapter, &path, (cm_mad.udp_port, 0));
    }
    let psn = port.management.psn.fetch_add(1, Ordering::Relaxed);
    let packet = packet(Psn::new(psn), &cm_mad.mad).ok_or(Errno::EINVAL)?;
    let mut tx_batch = TxBatch::new(&path);
    if let Ok(length) = packet.emit(tx_batch.room()) {
        tx_batch.push(length);
    }
    drop(tx_batch);
    adapter.counters().shard().packets_sent.add(1);
    Ok(())
}

/// Handles an empty datagram.
pub(super) fn take_question() {
    if let Some(agent) = AGENT.get() {
        (agent.question)();
    }
}

/// Returns the path from a local address. An address that is not link-local may have moved to
/// another interface.
fn path_between(
    port: &Port,
    interface: u32,
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Result<Path> {
    let location = link::port_of(interface)
        .and_then(|port| link::locate_gid_from(port, gid(source)))
        .ok_or(Errno(libc::EADDRNOTAVAIL))?;
    let vector = ibv_ah_attr {
        grh: ibv_global_route {
            dgid: gid(destination),
            sgid_index: location.index,
            hop_limit: HOP_LIMIT,
            ..Default::default()
        },
        is_global: 1,
        port_num: location.port,
        ..Default::default()
    };
    Path::of(&port.management_senders, &vector)
}
