//! Where messages arrive: as far into a page as they came from, and small ones at several cache lines in turn.
//!
//! A processor tells loads from earlier stores by the offset within the page first: a copy to a little further into its page
//! than its source waits for stores that have nothing to do with it (a read of 4 KiB took 305 ns instead of 214). Buffers of
//! programs begin at pages for the most part, perftest's among them.
//!
//! How far a cache line is from two cores depends on its address, by up to a third on processors whose last cache is spread
//! over a mesh; a launch that keeps one line measures that line. Perftest reuses one address, and so differs from launch
//! to launch.

use crate::wiring::PAGE;
use verbena_fabric::{Capabilities, FabricKind};

/// Between two places.
const LINE: usize = 64;
/// Enough that another launch's come to the same mean; all lie within a page.
const PLACES: u64 = 64;
/// Messages before the next place's turn, so that a prefetcher sees no stream. A place's turn comes again after
/// `PLACES * TURN` messages: no multiple of the tags' period lies between the last tag there and the next.
const TURN: u64 = 64;

/// The offset of the bytes that arrive, behind those that leave from offset 0 and a page that nobody uses: where pages
/// adjoin, a read of 4 KiB took a fourth more on the processors that this was tried on.
pub fn arrival(size: usize) -> usize {
    size.next_multiple_of(PAGE) + PAGE
}

/// The places of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    first: usize,
    number: u64,
}

impl Places {
    /// For messages of `size` bytes. In virtual time all lines are equal, and messages of a page go over all lines of one:
    /// there is one place.
    pub fn new(size: usize, capabilities: &Capabilities) -> Places {
        let number = match capabilities.kind {
            FabricKind::Model => 1,
            _ if size >= PAGE => 1,
            _ => PLACES,
        };
        let first = arrival(size);
        Places { first, number }
    }

    /// From the first place's begin to the last one's.
    pub fn span(&self) -> usize {
        (self.number as usize - 1) * LINE
    }

    /// The offset of message `i`.
    #[inline]
    pub fn of(&self, i: u64) -> usize {
        self.first + (i / TURN % self.number) as usize * LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::ping_pong::TAGS;

    #[test]
    fn a_tag_left_at_a_place_is_never_the_next_one_awaited_there() {
        let places = Places {
            first: 128,
            number: PLACES,
        };
        let mut last = std::collections::HashMap::new();
        for i in 0..3 * PLACES * TURN {
            let place = places.of(i);
            assert!((128..=128 + places.span()).contains(&place));
            if let Some(before) = last.insert(place, i % TAGS) {
                assert_ne!(before, i % TAGS, "message {i}");
            }
        }
        assert_eq!(last.len(), PLACES as usize);
    }
}
