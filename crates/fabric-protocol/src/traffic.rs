//! The file in which an adapter counts its traffic by destination, for the counters of the ports on
//! the way. The adapter alone writes it, and values only grow; the process that keeps the fabric
//! reads it before each look at a counter.
//!
//! The file has entries of [`ENTRY`] bytes. The first one is the header: its first word is the
//! number of entries in use. Words are 8 bytes in the machine's order.

use crate::Destination;

/// Bytes of an entry.
pub const ENTRY: usize = 64;
/// Entries of a file, with the header.
pub const ENTRIES: usize = 1 << 18;
/// Length of the file in bytes.
pub const LENGTH: usize = ENTRY * ENTRIES;
/// Offset of the destination ([`Destination::word`]), which never changes.
pub const DESTINATION: usize = 0;
/// Offset of the counts of [`Traffic`], in its order.
pub const COUNTS: usize = 8;

/// Packets and 4-byte words to a destination, and those that come back as answers to reads and
/// atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Words to the destination.
    pub words: u64,
    /// Packets to it.
    pub packets: u64,
    /// Words back.
    pub words_back: u64,
    /// Packets back.
    pub packets_back: u64,
}

impl Traffic {
    /// Returns the counts in the order of the file.
    pub fn counts(self) -> [u64; 4] {
        [self.words, self.packets, self.words_back, self.packets_back]
    }

    /// Reads an entry: the destination and its traffic so far. `None` if it has another length.
    pub fn of(entry: &[u8]) -> Option<(Destination, Traffic)> {
        let words: &[[u8; 8]] = entry.as_chunks().0;
        let [destination, counts @ .., _, _, _] = words else {
            return None;
        };
        let &[words, packets, words_back, packets_back] = counts else {
            return None;
        };
        let traffic = Traffic {
            words: u64::from_ne_bytes(words),
            packets: u64::from_ne_bytes(packets),
            words_back: u64::from_ne_bytes(words_back),
            packets_back: u64::from_ne_bytes(packets_back),
        };
        let destination = u64::from_ne_bytes(*destination) as u32;
        Some((Destination::of(destination), traffic))
    }

    /// Returns the traffic since an earlier count of the same entry.
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            words: self.words.wrapping_sub(earlier.words),
            packets: self.packets.wrapping_sub(earlier.packets),
            words_back: self.words_back.wrapping_sub(earlier.words_back),
            packets_back: self.packets_back.wrapping_sub(earlier.packets_back),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_is_laid_out() {
        let traffic = Traffic {
            words: 1,
            packets: 2,
            words_back: 3,
            packets_back: 4,
        };
        let destination = Destination { port: 1, lid: 9 };
        let mut entry = [0; ENTRY];
        entry[DESTINATION..8].copy_from_slice(&u64::from(destination.word()).to_ne_bytes());
        for (at, count) in traffic.counts().into_iter().enumerate() {
            let begin = COUNTS + 8 * at;
            entry[begin..begin + 8].copy_from_slice(&count.to_ne_bytes());
        }
        assert_eq!(Traffic::of(&entry), Some((destination, traffic)));
        assert_eq!(Traffic::of(&entry[..40]), None);
        assert_eq!(traffic.since(traffic), Traffic::default());
    }
}
