//! Queue pair numbers of this process: fresh ones, and used ones, which rest before they are
//! reused.

use std::collections::VecDeque;

/// Nanoseconds that a number rests after its queue pair is destroyed: messages still in flight to
/// it are dropped, and a peer that has lost its connection does not take the next one for it
/// (architecture specification, 12.9.8, TimeWait).
pub const REST: u64 = 1_000_000_000;

/// The unused numbers of a process.
#[derive(Debug, Default)]
pub struct Numbers {
    fresh: std::ops::Range<u32>,
    /// Each with the time of its release, the earliest first.
    used: VecDeque<(u64, u32)>,
}

impl Numbers {
    /// Takes a number that has rested, or else a fresh one. None when there is neither.
    pub fn take(&mut self, now: u64) -> Option<u32> {
        if let Some(&(since, number)) = self.used.front()
            && now.saturating_sub(since) >= REST
        {
            self.used.pop_front();
            return Some(number);
        }
        self.fresh.next()
    }

    /// Takes the number that has rested longest, though not long enough; for use when there is no
    /// other.
    pub fn take_early(&mut self) -> Option<u32> {
        self.used.pop_front().map(|(_, number)| number)
    }

    /// Adds a block of fresh numbers. The last block must be used up.
    pub fn add(&mut self, block: std::ops::Range<u32>) {
        debug_assert!(self.fresh.is_empty());
        self.fresh = block;
    }

    /// Releases a number.
    pub fn give_back(&mut self, number: u32, now: u64) {
        self.used.push_back((now, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_number_is_not_reused_before_its_rest() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.take(0), None);
        numbers.add(256..258);
        assert_eq!(numbers.take(0), Some(256));
        numbers.give_back(256, 10);
        assert_eq!(numbers.take(11), Some(257), "256 rests");
        assert_eq!(numbers.take(9 + REST), None, "256 still rests");
        assert_eq!(numbers.take(10 + REST), Some(256));
        numbers.give_back(257, 20);
        numbers.give_back(256, 30);
        assert_eq!(numbers.take_early(), Some(257), "which rests longest");
    }
}
