//! Positions up to which messages of a lane were sent and acknowledged, at their producer: words
//! that tell without a lock whether there is anything to do.
//!
//! As in [`crate::flight`], a message is *announced* before it is published. A message whose
//! acknowledgement matters at once, because it completes, is *awaited*, which is noted before it is
//! published, too. Acknowledgements of other messages may be left to a later look: they only free
//! slots, and let a queue pair leave the lane without keeping them as pending requests.
//!
//! SYNC POINT lane await: a thread that finds an acknowledgement of an awaited message finds it
//! awaited, because both are ordered by the publication (Release) and the consumer's look at it
//! (Acquire). So an acknowledgement is only left if no message before it completes.
//!
//! SYNC POINT lane left: a slot is written again once the consumer has released it. The thread that
//! finds the release may leave it to the thread that sends, so `passed` hands it on.

use crate::sync::{AtomicU32, Ordering};

/// Positions in a lane, written under the send queue's lock. Threads that find acknowledgements
/// write `passed` as well: it may be that of an older one, at worst the processed position.
#[derive(Debug)]
pub struct LaneFlight {
    /// Behind the last message.
    tail: AtomicU32,
    /// Before which acknowledgements were processed.
    acknowledged: AtomicU32,
    /// Behind the last message whose acknowledgement is awaited.
    awaited: AtomicU32,
    /// Of the last acknowledgement that was left.
    passed: AtomicU32,
}

/// Returns whether a position lies behind another one; both belong to messages in flight.
#[inline]
fn is_behind(position: u32, other: u32) -> bool {
    position.wrapping_sub(other).cast_signed() > 0
}

impl LaneFlight {
    /// Returns an empty lane at a position.
    pub fn new(position: u32) -> LaneFlight {
        LaneFlight {
            tail: AtomicU32::new(position),
            acknowledged: AtomicU32::new(position),
            awaited: AtomicU32::new(position),
            passed: AtomicU32::new(position),
        }
    }

    /// Announces a message that ends at `tail`.
    #[inline]
    pub fn announce(&self, tail: u32) {
        // As in `Flight::announce`.
        self.tail.store(tail, Ordering::Release);
    }

    /// Awaits the acknowledgement of the messages before a position. Called before they are
    /// published, or before messages in flight become pending requests.
    #[inline]
    pub fn await_until(&self, position: u32) {
        // SYNC POINT lane await: the publication orders it.
        self.awaited.store(position, Ordering::Relaxed);
    }

    /// Notes that everything before a position is complete, not earlier.
    #[inline]
    pub fn note_acknowledged(&self, position: u32) {
        // An old value would count as ahead once positions have wrapped.
        self.passed.store(position, Ordering::Relaxed);
        // SYNC POINT complete, as in `Flight::note_acknowledged`.
        self.acknowledged.store(position, Ordering::Release);
    }

    /// Returns the position before which acknowledgements were processed.
    #[inline]
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Returns the position behind the last announced message.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Returns whether no message is in flight, or all acknowledgements were processed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // SYNC POINT complete.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        self.tail.load(Ordering::Relaxed) == acknowledged
    }

    /// Returns whether the acknowledgement of a message in flight is awaited.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        // SYNC POINT complete: loaded first, so that a thread that finds nothing awaited sees the
        // completions.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        is_behind(self.awaited.load(Ordering::Relaxed), acknowledged)
    }

    /// Leaves an acknowledgement up to a position to a later look, if nothing awaits it and the
    /// position is valid. Returns whether it did, or the acknowledgement was processed before. The
    /// caller has found no answer that precedes the acknowledgement.
    #[inline]
    pub fn leaves(&self, position: u32) -> bool {
        // SYNC POINT complete, as in `is_awaited`.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        if !is_behind(position, acknowledged) {
            return true;
        }
        // SYNC POINT lane await: a message that is announced was awaited before.
        let in_flight = self.tail.load(Ordering::Acquire).wrapping_sub(acknowledged);
        if is_behind(self.awaited.load(Ordering::Relaxed), acknowledged)
            || position.wrapping_sub(acknowledged) > in_flight
        {
            return false;
        }
        // SYNC POINT lane left.
        self.passed.store(position, Ordering::Release);
        true
    }

    /// Processes the acknowledgement that was left last: no message before it completes, and no
    /// answer precedes it. Returns the position before which acknowledgements are processed. Called
    /// under the send queue's lock.
    pub fn take_left(&self) -> u32 {
        // SYNC POINT lane left.
        let (passed, acknowledged) = (self.passed.load(Ordering::Acquire), self.acknowledged());
        if passed.wrapping_sub(acknowledged) > self.tail().wrapping_sub(acknowledged) {
            return acknowledged;
        }
        self.note_acknowledged(passed);
        if !is_behind(self.awaited.load(Ordering::Relaxed), passed) {
            // As in `note_acknowledged`; here, as messages that nothing awaits are acknowledged.
            self.awaited.store(passed, Ordering::Relaxed);
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_left_unless_awaited() {
        // Positions wrap on the way.
        let first = u32::MAX - 2;
        let flight = LaneFlight::new(first);
        let at = |passed: u32| first.wrapping_add(passed);
        assert!(flight.is_idle() && !flight.is_awaited());
        flight.announce(at(2));
        assert!(!flight.is_idle() && !flight.is_awaited());
        assert!(flight.leaves(at(1)));
        flight.await_until(at(3));
        flight.announce(at(3));
        assert!(flight.is_awaited() && !flight.leaves(at(2)));
        assert_eq!(flight.take_left(), at(1));
        flight.note_acknowledged(at(2));
        assert!(flight.is_awaited() && !flight.leaves(at(3)));
        assert_eq!(flight.take_left(), at(2));
        flight.note_acknowledged(at(3));
        assert!(flight.is_idle() && !flight.is_awaited());
    }

    #[test]
    fn positions_past_the_last_message_are_not_left() {
        let flight = LaneFlight::new(7);
        flight.announce(9);
        assert!(!flight.leaves(10));
        // Processed before.
        assert!(flight.leaves(6) && flight.leaves(7));
        assert_eq!(flight.take_left(), 7);
        assert!(flight.leaves(9));
        assert_eq!(flight.take_left(), 9);
        assert!(flight.is_idle());
    }

    #[test]
    fn old_positions_do_not_return_when_positions_wrap() {
        let flight = LaneFlight::new(0);
        for position in (1..=8u32).map(|step| step << 29) {
            flight.announce(position);
            assert!(flight.leaves(position), "awaited at {position}");
            assert_eq!(flight.take_left(), position);
        }
        for position in (1..8u32).map(|step| step << 29) {
            flight.note_acknowledged(position);
        }
        flight.announce(4);
        assert_eq!(flight.take_left(), 7 << 29);
    }
}
