//! Congestion control of connections (annex A17.9): the receiver of a packet that a switch has
//! marked (RFC 3168) sends a notification (CNP) to the sender, which then reduces its rate.
//!
//! Only connections take part: their packets are marked ECN-capable. For datagrams the address
//! handle's traffic class decides.

use super::responder::packet_responder::PacketResponder;
use super::{Qp, ReceiveQueue};
use crate::roce::packet::ReceivedPacket;
use crate::roce::path::Path;
use crate::roce::tx_batch::TxBatch;
use std::sync::Arc;
use verbena_hca_os::clock;
use verbena_wire::bth::Bth;
use verbena_wire::opcode::Opcode;
use verbena_wire::packet::{Extensions, Headers};
use verbena_wire::{Psn, Qpn};

/// Class selector 6, network control: adapters send notifications with it.
const CLASS: u8 = 48 << 2;
/// Bytes of a notification's payload, which is reserved and zero.
const PAYLOAD: usize = 16;

impl Qp {
    /// Handles a received packet that a switch has marked: notifies the peer.
    #[cold]
    pub(crate) fn note_congestion(&self, received: &ReceivedPacket<'_>) {
        let counters = self.process.counters.shard();
        counters.marked_packets.add(1);
        let mut guard = self.lock_receive();
        let ReceiveQueue { packets, .. } = &mut *guard;
        let Some((path, peer, notification_timer)) =
            packets.as_deref_mut().and_then(PacketResponder::connection)
        else {
            return;
        };
        if path.is_path_of(received) && notification_timer.try_restart(clock::now()) {
            notify(&path.clone().with_traffic_class(CLASS), peer);
            counters.congestion_notifications_sent.add(1);
            counters.packets_sent.add(1);
        }
    }

    /// Handles the peer's notification that packets of this queue pair met congestion.
    #[cold]
    pub(crate) fn take_congestion_notification(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        let counters = self.process.counters.shard();
        counters.congestion_notifications_received.add(1);
        if let Some(packets) = &mut self.lock_send().packets {
            packets.congested(received);
        }
    }
}

fn notify(path: &Path, peer: Qpn) {
    let mut bth = Bth::new(Opcode::CNP, peer, Psn::new(0));
    bth.backward_congestion = true;
    let headers = Headers {
        bth,
        extensions: Extensions::NONE,
    };
    let mut tx_batch = TxBatch::new(path);
    if let Ok(payload) = headers.emit_around(PAYLOAD, tx_batch.room()) {
        payload.fill(0);
        tx_batch.push(headers.packet_length(PAYLOAD));
    }
}
