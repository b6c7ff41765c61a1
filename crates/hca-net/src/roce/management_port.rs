//! A process's share of queue pair 1, and the packets from it.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use verbena_hca_os::udp::Inbox;
use verbena_wire::bth::Bth;
use verbena_wire::deth::Deth;
use verbena_wire::mad;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::{Psn, QKey, Qpn};

/// A process's share of queue pair 1.
#[derive(Default)]
pub(super) struct ManagementPort {
    pub(super) inbox: Mutex<Inbox>,
    pub(super) psn: AtomicU32,
    /// Datagrams sent to each address since the last one from there.
    unanswered: Mutex<HashMap<Ipv6Addr, u32>>,
}

impl ManagementPort {
    /// Counts a datagram to `destination`. Returns whether so many are unanswered that possibly
    /// none arrives.
    pub(super) fn is_unanswered(&self, destination: Ipv6Addr) -> bool {
        /// The first one's answer may still be on its way.
        const UNANSWERED_LIMIT: u32 = 2;
        /// Addresses that are remembered.
        const MOST: usize = 1024;
        let mut unanswered = self.unanswered.lock().unwrap_or_else(|e| e.into_inner());
        if unanswered.len() >= MOST {
            unanswered.clear();
        }
        let sent = unanswered.entry(destination).or_default();
        *sent += 1;
        *sent >= UNANSWERED_LIMIT
    }

    pub(super) fn note_answer(&self, source: Ipv6Addr) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(|e| e.into_inner());
        unanswered.remove(&source);
    }
}

/// Returns the packet of a datagram from and to queue pair 1.
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
