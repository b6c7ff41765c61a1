//! Traits by which other layers call a queue pair: the network delivers packets
//! ([`crate::roce`]), a completion queue reports its failure, and the process's cache compares
//! numbers.

use super::Qp;
use crate::cq::Member;
use crate::process::qp_cache::Numbered;
use crate::roce::adapter::QueuePair;
use crate::roce::packet::ReceivedPacket;
use std::sync::Arc;
use verbena_abi::IBV_EVENT_QP_FATAL;
use verbena_wire::middles::Middles;

impl QueuePair for Qp {
    #[inline]
    fn number(&self) -> u32 {
        self.number
    }

    fn note_congestion(&self, received: &ReceivedPacket<'_>) {
        Qp::note_congestion(self, received);
    }

    fn take_congestion_notification(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        Qp::take_congestion_notification(self, received);
    }

    fn take_datagram_packet(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        Qp::take_datagram_packet(self, received);
    }

    fn serve_packet(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        for _ in 0..self.packets_taken() {
            Qp::serve_packet(self, received);
        }
    }

    fn serve_middles(self: &Arc<Qp>, first: &ReceivedPacket<'_>, middles: &Middles<'_>) -> bool {
        Qp::serve_middles(self, first, middles)
    }

    fn take_response(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        for _ in 0..self.packets_taken() {
            Qp::take_response(self, received);
        }
    }

    fn answer_by_packets(self: &Arc<Qp>) -> bool {
        Qp::answer_by_packets(self)
    }
}

impl Member for Qp {
    fn fail(&self) {
        // As before a change to the error state by the program.
        self.process.complete_acknowledged();
        self.fail_as_responder(Some(IBV_EVENT_QP_FATAL));
    }
}

impl Numbered for Qp {
    #[inline]
    fn number(&self) -> u32 {
        self.number
    }

    #[inline]
    fn incarnation(&self) -> u32 {
        Qp::incarnation(self)
    }

    #[inline]
    fn is_destroyed(&self) -> bool {
        Qp::is_destroyed(self)
    }
}
