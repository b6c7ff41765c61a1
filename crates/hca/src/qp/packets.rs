//! The queue pair as the destination of packets ([`crate::roce`]).

use super::Qp;
use crate::roce::adapter::QueuePair;
use crate::roce::packet::ReceivedPacket;
use std::sync::Arc;

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
        Qp::serve_packet(self, received);
    }

    fn take_response(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        Qp::take_response(self, received);
    }

    fn answer_by_packets(self: &Arc<Qp>) -> bool {
        Qp::answer_by_packets(self)
    }
}
