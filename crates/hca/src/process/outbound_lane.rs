//! A lane at its producer, as threads see it that look for acknowledgements.

use crate::process::channel_ends::{Inbound, Outbound};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use verbena_hca_shm::channel::{HeldLane, Lane};
use verbena_hca_shm::lane;
use verbena_hca_shm::lane_flight::LaneFlight;

/// A queue pair that sends or receives by a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneUser {
    /// Its number.
    pub number: u32,
    /// Number of the queue in which its sends complete, 0 for none.
    pub send_queue: u32,
    /// Number of the queue in which its receives complete, 0 for none.
    pub receive_queue: u32,
}

/// A lane at its producer. It shares no cache line: threads write to it with each message.
#[repr(align(128))]
pub struct LaneOut<Q> {
    /// The channel that it belongs to.
    pub via: Arc<Outbound<Q>>,
    /// Its number there.
    pub number: u32,
    memory: HeldLane<Outbound<Q>>,
    /// The queue pair that sends.
    pub queue_pair: Arc<Q>,
    /// The same, by numbers.
    pub user: LaneUser,
    /// How far messages were sent and acknowledged.
    pub flight: LaneFlight,
    /// Acknowledged position when the progress thread saw that the consumer was ahead of it.
    seen: AtomicU64,
    patience: Patience,
}

/// How long polls wait for a message back, which acknowledges without a look at the consumer's
/// position: each look takes the position's cache line from the consumer. Threads that poll at the
/// same time may count wrongly, which is harmless.
struct Patience {
    /// Whether polls for acknowledgements find messages back, too. Otherwise they never wait.
    finds_messages: bool,
    /// Polls before the first look.
    limit: AtomicU32,
    /// Polls since the last acknowledgement, up to [`MOST_POLLS`].
    polls: AtomicU32,
    /// Whether a look found the last acknowledgement.
    was_looked_up: AtomicBool,
}

/// Largest limit.
const MOST_POLLS: u32 = 256;

impl Patience {
    /// Returns that of the polls for the acknowledgements of a queue pair.
    fn of(user: LaneUser) -> Patience {
        Patience {
            finds_messages: user.send_queue == user.receive_queue,
            limit: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            was_looked_up: AtomicBool::new(false),
        }
    }

    /// Counts a poll. Returns whether it looks.
    #[inline]
    fn is_over(&self) -> bool {
        if !self.finds_messages {
            return true;
        }
        let polls = self.polls.load(Ordering::Relaxed);
        if polls < MOST_POLLS {
            self.polls.store(polls + 1, Ordering::Relaxed);
        }
        polls >= self.limit.load(Ordering::Relaxed)
    }

    /// Counts a poll while nothing is awaited, if a look found the last acknowledgement.
    #[inline]
    fn count_idle(&self) {
        if self.counts_idle() {
            self.is_over();
        }
    }

    /// Returns whether polls are counted while nothing is awaited.
    #[inline]
    fn counts_idle(&self) -> bool {
        self.was_looked_up.load(Ordering::Relaxed)
    }

    /// Notes a message back. If it came late, after a look had found its acknowledgement, the next
    /// wait is long enough for it, unless that is too long.
    #[inline]
    fn note_message(&self, came_late: bool) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(0, Ordering::Relaxed);
        if !self.was_looked_up.load(Ordering::Relaxed) {
            return;
        }
        self.was_looked_up.store(false, Ordering::Relaxed);
        if came_late && polls < MOST_POLLS {
            let needed = self.limit.load(Ordering::Relaxed) + polls + 1;
            self.limit
                .store((needed + needed / 4).min(MOST_POLLS), Ordering::Relaxed);
        }
    }

    /// Notes an acknowledgement by a look. If no message has come since the last one, the next wait
    /// is shorter.
    #[inline]
    fn note_look(&self) {
        self.polls.store(0, Ordering::Relaxed);
        if self.was_looked_up.load(Ordering::Relaxed) {
            let limit = self.limit.load(Ordering::Relaxed) / 2;
            self.limit.store(limit, Ordering::Relaxed);
        }
        self.was_looked_up
            .store(self.finds_messages, Ordering::Relaxed);
    }
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
            memory: HeldLane::new(&via, |via| &via.channel, number),
            via,
            number,
            queue_pair,
            user,
            flight: LaneFlight::new(position),
            seen: AtomicU64::new(NOTHING),
            patience: Patience::of(user),
        }
    }

    /// Returns the shared memory.
    #[inline]
    pub fn store(&self) -> Lane<'_> {
        self.memory.lane()
    }

    /// Returns whether the queue pair with a number sends to the peer of a channel by this lane.
    pub fn is_back_of(&self, inbound: &Inbound<Q>, number: u32) -> bool {
        self.user.number == number && self.via.peer.identity == inbound.peer.identity
    }

    /// Returns whether an answer waits that may be one to a message in the lane. Loaded after the
    /// acknowledgement that it precedes.
    #[inline]
    fn has_answer(&self) -> bool {
        self.via.has_answer() && !self.flight.is_idle()
    }

    /// Returns the consumer's position for a poll, if that has something to do: it may leave the
    /// position to a later one, and wait for a message back that acknowledges as well.
    #[inline]
    pub fn news_for_poll(&self) -> Option<u32> {
        if !self.flight.is_awaited() {
            self.patience.count_idle();
            // A message that was refused completes, or is repeated.
            return match self.has_answer() {
                true => self.news(),
                false => None,
            };
        }
        if !self.patience.is_over() {
            return None;
        }
        let news = self.news();
        if news.is_some() {
            self.patience.note_look();
        }
        news
    }

    /// Returns whether [`LaneOut::news_for_poll`] may return something, or counts the poll.
    #[inline(always)]
    pub fn is_awaiting(&self) -> bool {
        self.flight.is_awaited() || self.patience.counts_idle() || self.via.has_answer()
    }

    /// Returns whether an acknowledgement by a message back must be processed before the message
    /// is served, and does not wait for others.
    #[inline]
    pub fn is_answered(&self, position: u32) -> bool {
        let is_left = !self.via.has_answer() && self.flight.leaves(position);
        self.patience.note_message(is_left);
        !is_left
    }

    /// Returns the consumer's position, if it acknowledges anything that was not processed yet.
    #[inline]
    pub fn news(&self) -> Option<u32> {
        if self.flight.is_idle() {
            return None;
        }
        let head = lane::released(&self.store());
        (head != self.flight.acknowledged()).then_some(head)
    }

    /// As [`LaneOut::news`], unless nothing awaits the acknowledgement.
    #[inline]
    pub fn awaited_news(&self) -> Option<u32> {
        match self.flight.is_awaited() || self.has_answer() {
            true => self.news(),
            false => None,
        }
    }

    /// Returns the position of the first message that is acknowledged and was not processed yet,
    /// if that is awaited.
    pub fn first_news(&self) -> Option<u32> {
        let acknowledged = self.flight.acknowledged();
        self.awaited_news().map(|_| acknowledged)
    }

    /// Returns whether an acknowledgement is present that was already present at the last call. For
    /// the progress thread.
    pub fn has_left_news(&self) -> bool {
        let news = self.first_news().map_or(NOTHING, u64::from);
        self.seen.swap(news, Ordering::Relaxed) == news && news != NOTHING
    }

    /// Returns whether the consumer has messages to serve, or an acknowledgement is awaited.
    pub fn is_under_way(&self) -> bool {
        !self.flight.is_idle()
            && (self.flight.is_awaited()
                || lane::released(&self.store()) != self.flight.tail()
                || self.via.has_answer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns that of a queue pair whose requests all complete in one queue.
    fn patience() -> Patience {
        Patience::of(LaneUser {
            number: 1,
            send_queue: 2,
            receive_queue: 2,
        })
    }

    /// Returns the number of polls before a look.
    fn wait(patience: &Patience) -> u32 {
        (0..).find(|_| patience.is_over()).unwrap()
    }

    /// A look finds the acknowledgement, and the message comes so many polls later.
    fn come_late(patience: &Patience, polls: u32) {
        patience.note_look();
        (0..polls).for_each(|_| patience.count_idle());
        patience.note_message(true);
    }

    #[test]
    fn wait_is_as_long_as_messages_take() {
        let patience = patience();
        assert_eq!(wait(&patience), 0);
        come_late(&patience, 39);
        assert_eq!(wait(&patience), 50);
        // Messages come first: the wait stays.
        (0..3).for_each(|_| patience.note_message(false));
        assert_eq!(wait(&patience), 50);
        come_late(&patience, 200);
        assert_eq!(wait(&patience), MOST_POLLS);
    }

    #[test]
    fn no_wait_for_messages_that_take_too_long_or_acknowledge_others() {
        let patience = patience();
        come_late(&patience, MOST_POLLS);
        assert_eq!(wait(&patience), 0);
        // The message acknowledges a later request than the look.
        patience.note_look();
        patience.note_message(false);
        assert_eq!(wait(&patience), 0);
    }

    #[test]
    fn wait_ends_when_no_messages_come() {
        let patience = patience();
        come_late(&patience, 203);
        patience.note_look();
        let waits: Vec<u32> = (0..10)
            .map(|_| {
                let waited = wait(&patience);
                patience.note_look();
                waited
            })
            .collect();
        assert_eq!(waits, [255, 127, 63, 31, 15, 7, 3, 1, 0, 0]);
    }
}
