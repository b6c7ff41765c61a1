//! Addresses of received messages: at the same page offset as the source, and for small messages
//! over several cache lines in turn.
//!
//! A processor first distinguishes loads from earlier stores by their page offset: a copy to a
//! slightly higher page offset than its source waits for unrelated stores (a read of 4 KiB took 305
//! ns instead of 214). Buffers of most programs begin at pages, perftest's among them.
//!
//! The distance of a cache line from two cores depends on its address, by up to a third on
//! processors whose last-level cache is distributed over a mesh; a launch that uses one line
//! measures that line. Perftest reuses one address, and so varies from launch to launch.

use crate::wiring::PAGE;
use verbena_fabric::{Capabilities, FabricKind};

/// Distance between addresses in bytes.
const LINE: usize = 64;
/// Enough for launches to agree in the mean; all lie within a page.
const PLACES: u64 = 64;
/// Messages per address, so that a prefetcher detects no stream. Between the last tag at an address
/// and the next one there, `PLACES * TURN` messages later, lies no multiple of the tags' period.
const TURN: u64 = 64;

/// Returns the offset of received bytes: behind the source at offset 0 and one unused page. With
/// adjacent pages a read of 4 KiB took a fourth more on the tested processors.
pub fn arrival(size: usize) -> usize {
    size.next_multiple_of(PAGE) + PAGE
}

/// The addresses in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct BufferOffsets {
    first: usize,
    number: u64,
}

impl BufferOffsets {
    /// Returns the addresses for messages of `size` bytes. There is one if all lines are equal
    /// (virtual time), or if a message covers all lines of a page.
    pub fn new(size: usize, capabilities: &Capabilities) -> BufferOffsets {
        let number = match capabilities.kind {
            FabricKind::Model => 1,
            _ if size >= PAGE => 1,
            _ => PLACES,
        };
        let first = arrival(size);
        BufferOffsets { first, number }
    }

    /// Returns the distance from the first address to the last.
    pub fn span(&self) -> usize {
        (self.number as usize - 1) * LINE
    }

    /// Returns the offset of message `i`.
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
    fn a_stale_tag_is_never_the_next_expected_one() {
        let offsets = BufferOffsets {
            first: 128,
            number: PLACES,
        };
        let mut last = std::collections::HashMap::new();
        for i in 0..3 * PLACES * TURN {
            let place = offsets.of(i);
            assert!((128..=128 + offsets.span()).contains(&place));
            if let Some(before) = last.insert(place, i % TAGS) {
                assert_ne!(before, i % TAGS, "message {i}");
            }
        }
        assert_eq!(last.len(), PLACES as usize);
    }
}
