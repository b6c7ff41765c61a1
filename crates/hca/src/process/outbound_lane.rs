//! A lane at its producer, as threads see it that look for acknowledgements.

use crate::process::channel_ends::Outbound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use verbena_hca_shm::channel::Lane;
use verbena_hca_shm::lane;

/// A queue pair that sends or receives by a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneUser {
    /// Its number.
    pub number: u32,
    /// Numbers of the queues in which its requests complete, 0 for none.
    pub queues: [u32; 2],
}

/// A lane at its producer. It shares no cache line: threads write to it with each message.
#[repr(align(128))]
pub struct LaneOut<Q> {
    /// The channel that it belongs to.
    pub via: Arc<Outbound<Q>>,
    /// Its number there.
    pub number: u32,
    /// The queue pair that sends.
    pub queue_pair: Arc<Q>,
    /// The same, by numbers.
    pub user: LaneUser,
    /// Position behind the last message, written under the send queue's lock before the message is
    /// published.
    tail: AtomicU32,
    /// Position before which acknowledgements were processed, written under that lock.
    acknowledged: AtomicU32,
    /// Acknowledged position when the progress thread saw that the consumer was ahead of it.
    seen: AtomicU64,
}

/// Value of `seen` when there was no acknowledgement; positions never reach it.
const NOTHING: u64 = u64::MAX;

impl<Q> LaneOut<Q> {
    /// Returns an empty lane at a position.
    pub fn new(
        via: Arc<Outbound<Q>>,
        number: u32,
        position: u32,
        queue_pair: Arc<Q>,
        user: LaneUser,
    ) -> LaneOut<Q> {
        LaneOut {
            via,
            number,
            queue_pair,
            user,
            tail: AtomicU32::new(position),
            acknowledged: AtomicU32::new(position),
            seen: AtomicU64::new(NOTHING),
        }
    }

    /// Returns the shared memory.
    #[inline]
    pub fn store(&self) -> Lane<'_> {
        self.via.channel.lane(self.number)
    }

    /// Announces a message that ends at `tail`.
    #[inline]
    pub fn announce(&self, tail: u32) {
        // As in `Flight::announce`.
        self.tail.store(tail, Ordering::Release);
    }

    /// Notes that everything up to the consumer's position `head` is complete, not earlier.
    #[inline]
    pub fn note_acknowledged(&self, head: u32) {
        // SYNC POINT complete, as in `Flight::note_acknowledged`.
        self.acknowledged.store(head, Ordering::Release);
    }

    /// Returns whether no message is in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // SYNC POINT complete.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        self.tail.load(Ordering::Relaxed) == acknowledged
    }

    /// Returns the consumer's position, if it acknowledges anything that was not processed yet.
    #[inline]
    pub fn news(&self) -> Option<u32> {
        if self.is_idle() {
            return None;
        }
        let head = lane::released(&self.store());
        (head != self.acknowledged.load(Ordering::Relaxed)).then_some(head)
    }

    /// Returns the position of the first message that is acknowledged and was not processed yet.
    pub fn first_news(&self) -> Option<u32> {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        self.news().map(|_| acknowledged)
    }

    /// Returns whether an acknowledgement is present that was already present at the last call. For
    /// the progress thread.
    pub fn has_left_news(&self) -> bool {
        let news = self.first_news().map_or(NOTHING, u64::from);
        self.seen.swap(news, Ordering::Relaxed) == news && news != NOTHING
    }
}
