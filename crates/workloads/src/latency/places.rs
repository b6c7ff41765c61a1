//! Where messages arrive: at several cache lines in turn.
//!
//! How far a cache line is from two cores depends on its address, by up to a third on processors whose last cache is spread
//! over a mesh; a launch that keeps one line measures that line. Perftest reuses one address, and so differs from launch
//! to launch.

use verbena_fabric::{Capabilities, FabricKind};

/// Between two places.
const LINE: usize = 64;
/// Enough that another launch's come to the same mean; all lie within a page.
const PLACES: u64 = 64;
/// Messages before the next place's turn, so that a prefetcher sees no stream. A place's turn comes again after
/// `PLACES * TURN` messages: no multiple of the tags' period lies between the last tag there and the next.
const TURN: u64 = 64;

/// The places of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    first: usize,
    number: u64,
}

impl Places {
    /// From `first` on. In virtual time all lines are equal: there is one.
    pub fn new(first: usize, capabilities: &Capabilities) -> Places {
        let number = match capabilities.kind {
            FabricKind::Model => 1,
            _ => PLACES,
        };
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
