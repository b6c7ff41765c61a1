//! Queue pair 1, the general service interface (specification 13.2): management datagrams between hosts.
//!
//! A host has one; here every process of it is a part of it. Anyone sends from it. What comes to it is steered by the
//! kernel ([`super::steering`]):
//!
//! - A message that belongs to a conversation of ours comes to our own slot, with the packets of our queue pairs.
//! - What begins a conversation comes to slot 0. All processes wait there, one takes it, whichever is awake; one that is
//!   stopped or busy is passed over, and one that dies takes with it at most what it had just taken, which is sent again.
//!
//! What becomes of it is not the adapter's to know: it goes to the [`Agent`], which is the connection manager, if there is
//! one in the process. It is called by whichever thread receives packets and must not wait.

use super::path::{Path, gid, residence_of};
use super::port::Port;
use super::receive::Arrival;
use super::residence::Residence;
use super::train::Train;
use super::tunnel::trial;
use crate::errno::{Errno, Result};
use crate::link;
use crate::process::Process;
use crate::sys::udp::{Address, Inbox};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use verbena_abi::{ibv_ah_attr, ibv_global_route};
use verbena_wire::bth::Bth;
use verbena_wire::datagram::Deth;
use verbena_wire::mad;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::{PKey, Psn, QKey, Qpn};

pub use super::steering::SLOT_BITS;

/// A management datagram with both ends of its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The interface of ours that it came by, or leaves by: the kernel's number of it, for an address alone does not name one
    /// if it is link-local, and processes number their ports each in their own way.
    pub interface: u32,
    /// The address that sent it.
    pub source: Ipv6Addr,
    /// The address that it was sent to.
    pub destination: Ipv6Addr,
    /// At which port the other end is reached, if it is an adapter like this one.
    pub residence: Residence,
    /// The datagram.
    pub mad: [u8; mad::LENGTH],
}

/// Who is told of what has come.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    /// A datagram has come.
    pub letter: fn(Letter),
    /// Another host has asked whether there is a RoCE port here ([`Process::probe_port`]).
    pub question: fn(),
}

static AGENT: OnceLock<Agent> = OnceLock::new();

/// Names who is told of management datagrams from now on. The first one named stays.
pub fn set_agent(agent: Agent) {
    let _ = AGENT.set(agent);
}

/// What a process has of queue pair 1.
#[derive(Default)]
pub(super) struct Interface {
    inbox: Mutex<Inbox>,
    psn: AtomicU32,
    /// How many datagrams were sent to an address since one came from there.
    unanswered: Mutex<HashMap<Ipv6Addr, u32>>,
}

impl Interface {
    /// Whether so many were sent there without an answer that it may be that none arrives.
    fn is_unanswered(&self, destination: Ipv6Addr) -> bool {
        /// The first may wait for its answer yet.
        const PATIENCE: u32 = 2;
        /// Addresses that are remembered.
        const MOST: usize = 1024;
        let mut unanswered = self.unanswered.lock().unwrap_or_else(|e| e.into_inner());
        if unanswered.len() >= MOST {
            unanswered.clear();
        }
        let sent = unanswered.entry(destination).or_default();
        *sent += 1;
        *sent >= PATIENCE
    }

    fn heard(&self, source: Ipv6Addr) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(|e| e.into_inner());
        unanswered.remove(&source);
    }
}

/// Times that buffers are taken from the kernel before others get their turn.
const BATCHES: usize = 8;
/// Hops that a datagram may take, as Linux sets it for communication management.
const HOP_LIMIT: u8 = 64;

impl Process {
    /// The number of the slot that leads to this process, which its conversations have in bits 0 to 5 of their numbers
    /// ([`SLOT_BITS`]).
    ///
    /// # Errors
    /// ENODEV without a RoCE port; ENOMEM when there is no slot left.
    pub fn management_slot(self: &Arc<Process>) -> Result<u32> {
        self.join()?;
        let port = self.roce.get().ok_or(Errno(libc::ENODEV))?;
        if port.slot_number().is_none() {
            // With the first queue pair number comes a slot.
            let number = self.allocate_number()?;
            self.release_number(number);
        }
        port.slot_number().ok_or(Errno::ENOMEM)
    }

    /// Whether conversations of that slot are this process's.
    pub fn has_management_slot(&self, slot: u32) -> bool {
        let port = self.roce.get();
        port.and_then(Port::slot_number) == Some(slot)
    }

    /// Sends a datagram from one of our addresses. Whether it arrives nobody knows.
    ///
    /// # Errors
    /// ENODEV without a RoCE port, EADDRNOTAVAIL from an address that is not the port's; as [`Path::of`].
    pub fn send_management(self: &Arc<Process>, letter: &Letter) -> Result<()> {
        let port = self.roce.get().ok_or(Errno(libc::ENODEV))?;
        let path = way(port, letter.interface, letter.source, letter.destination)?
            .towards(letter.residence, &port.neighbours);
        if port.management.is_unanswered(letter.destination) {
            self.look_for_tunnel(&path, (letter.residence, 0));
        }
        let psn = port.management.psn.fetch_add(1, Ordering::Relaxed);
        let packet = packet(Psn::new(psn), &letter.mad).ok_or(Errno::EINVAL)?;
        let mut train = Train::new(&path);
        if let Ok(length) = packet.emit(train.room()) {
            train.couple(length);
        }
        drop(train);
        self.counters.shard().packets_sent.add(1);
        Ok(())
    }

    /// Sends an empty datagram to a RoCE port, which is no packet and is dropped there. If there is no such port any more,
    /// its host says so ([`Process::take_management_failures`]).
    ///
    /// # Errors
    /// As [`Process::send_management`].
    pub fn probe_port(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        residence: Residence,
    ) -> Result<()> {
        let port = self.roce.get().ok_or(Errno(libc::ENODEV))?;
        way(port, interface, source, destination)?
            .towards_known(residence, &port.neighbours)
            .send(&[], 0)
    }

    /// At which private ports of a host adapters like this one are. It is asked there: this waits for the answers, or until
    /// there will be none.
    ///
    /// # Errors
    /// As [`Process::send_management`].
    pub fn private_residences(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<Vec<Residence>> {
        let port = self.roce.get().ok_or(Errno(libc::ENODEV))?;
        let path = &way(port, interface, source, destination)?;
        let is_there =
            |residence: &Residence| path.leads_to_one_of_us(*residence, &port.neighbours);
        let private = Residence::all().filter(|residence| residence.is_private());
        // At once: where questions are dropped each takes its time.
        Ok(thread::scope(|scope| {
            let ask = |residence| {
                let asking = move || Some(residence).filter(is_there);
                thread::Builder::new().spawn_scoped(scope, asking).ok()
            };
            let asked: Vec<_> = private.filter_map(ask).collect();
            let answers = asked.into_iter().filter_map(|of| of.join().ok());
            answers.flatten().collect()
        }))
    }

    /// Whom datagrams sent from here did not reach, at which address and port, as far as the network has said.
    pub fn take_management_failures(&self) -> Vec<(Address, Errno)> {
        match self.roce.get() {
            Some(port) => port.management_senders.take_failures(),
            None => Vec::new(),
        }
    }

    /// Takes what has come to slot 0, if nobody was faster.
    pub(crate) fn receive_management(&self, port: &Port) {
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
                // Nothing but management is steered here, and nothing of it is answered by a queue pair.
                self.sort(&arrived, port.residence().port(), &mut Vec::new());
            }
        }
    }

    /// An empty datagram.
    pub(super) fn take_question(&self) {
        if let Some(agent) = AGENT.get() {
            (agent.question)();
        }
    }

    /// A packet for queue pair 1.
    pub(super) fn take_management(&self, arrival: &Arrival<'_>) {
        let headers = &arrival.packet.headers;
        let is_right = headers.bth.opcode.service() == Service::Ud
            && headers.bth.opcode.operation() == Operation::SendOnly
            && headers.bth.partition_key.admits(PKey::DEFAULT)
            && headers
                .extensions
                .deth
                .is_some_and(|deth| deth.queue_key == QKey::GSI);
        if let Ok(mad) = arrival.packet.payload.try_into()
            && is_right
        {
            if let Some(port) = self.roce.get() {
                port.management.heard(arrival.source);
                if let Some(token) = trial::token_of(&mad) {
                    return port.tunnels.asked(token);
                }
            }
            let Some(agent) = AGENT.get() else {
                return;
            };
            (agent.letter)(Letter {
                interface: link::interface_number(arrival.port),
                source: arrival.source,
                destination: arrival.destination,
                residence: residence_of(arrival.route.source_port),
                mad,
            });
        }
    }
}

/// The way from an address of ours. One that is not link-local may have moved to another interface meanwhile.
fn way(port: &Port, interface: u32, source: Ipv6Addr, destination: Ipv6Addr) -> Result<Path> {
    let place = link::port_of(interface)
        .and_then(|port| link::place_seen_from(port, gid(source)))
        .ok_or(Errno(libc::EADDRNOTAVAIL))?;
    let vector = ibv_ah_attr {
        grh: ibv_global_route {
            dgid: gid(destination),
            sgid_index: place.index,
            hop_limit: HOP_LIMIT,
            ..Default::default()
        },
        is_global: 1,
        port_num: place.port,
        ..Default::default()
    };
    Path::of(&port.management_senders, &vector)
}

pub(super) fn packet(psn: Psn, mad: &[u8; mad::LENGTH]) -> Option<Packet<'_>> {
    let opcode = Opcode::new(Service::Ud, Operation::SendOnly)?;
    Some(Packet {
        headers: Headers {
            bth: Bth::new(opcode, Qpn::GSI, psn),
            extensions: Extensions {
                deth: Some(Deth {
                    queue_key: QKey::GSI,
                    source: Qpn::GSI,
                }),
                ..Extensions::NONE
            },
        },
        payload: mad,
    })
}
