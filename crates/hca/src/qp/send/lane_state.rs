//! The state of a send queue's lane ([`super::lane`]).

use crate::process::lane_ends::OpenGate;
use crate::process::outbound_lane::LaneOut;
use std::sync::Arc;
use verbena_abi::IBV_SEND_SIGNALED;
use verbena_hca_shm::context_table::EndOfOwner;
use verbena_hca_shm::lane::{self, SLOTS};

/// A message in flight.
#[derive(Clone, Copy, Default)]
pub(super) struct InLane {
    pub(super) wr_id: u64,
    pub(super) immediate: u32,
    pub(super) length: u8,
    /// Those of the request, and IBV_SEND_SIGNALED if all requests are signalled.
    pub(super) flags: u8,
    pub(super) has_immediate: bool,
}

impl InLane {
    /// Returns whether it has a completion if it succeeds.
    #[inline]
    pub(super) fn is_signalled(&self) -> bool {
        u32::from(self.flags) & IBV_SEND_SIGNALED != 0
    }
}

/// The lane of a send queue.
pub(super) struct SendLane<Q> {
    pub(super) out: Arc<LaneOut<Q>>,
    /// Whether the responder's process ends.
    pub(super) end: EndOfOwner,
    /// Incarnations of this queue pair and of the responder that the consumer was notified of.
    pub(super) incarnations: (u32, u32),
    /// Generation of the last notice.
    pub(super) generation: u16,
    /// Whether all requests in flight are messages in the lane.
    pub(super) is_live: bool,
    /// The responder's gate when the lane became live.
    pub(super) gate: OpenGate,
    pub(super) tail: u32,
    pub(super) acknowledged: u32,
    /// Position, index and PSN of the first message since the lane became live, and the count of
    /// go-backs since then.
    pub(super) first: u32,
    pub(super) first_index: u64,
    pub(super) first_psn: u32,
    pub(super) epoch: u32,
    pub(super) in_flight: [InLane; SLOTS as usize],
}

impl<Q> SendLane<Q> {
    /// Returns whether the lane is live and has a free slot.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.is_live && self.tail.wrapping_sub(self.acknowledged) < SLOTS
    }

    /// Retires messages without a completion, whose acknowledgement polls have left.
    pub(super) fn retire_left(&mut self) {
        self.acknowledged = self.out.flight.take_left();
    }

    /// Retires messages that the peer has taken, up to the first that has a completion, before
    /// those in flight become pending requests: an error must not flush them.
    pub(super) fn retire_taken(&mut self) {
        self.retire_left();
        // SYNC POINT lane head: the position is loaded before the look for an answer.
        let head = lane::released(&self.out.store());
        let taken = head.wrapping_sub(self.acknowledged);
        if taken > self.tail.wrapping_sub(self.acknowledged) || self.out.via.has_answer() {
            // A wrong position is found again by a thread that can cut off the peer.
            return;
        }
        while self.acknowledged != head && !self.at(self.acknowledged).is_signalled() {
            self.acknowledged = self.acknowledged.wrapping_add(1);
        }
        self.out.flight.note_acknowledged(self.acknowledged);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.tail == self.acknowledged
    }

    #[inline]
    pub(super) fn index(&self, position: u32) -> u64 {
        self.first_index + u64::from(position.wrapping_sub(self.first))
    }

    #[inline]
    pub(super) fn at(&self, position: u32) -> &InLane {
        &self.in_flight[(position % SLOTS) as usize]
    }
}
