//! The order in which requests use a node: each reserves its sides when it is posted, by words of
//! shared memory. A word is read from outside, so any value is possible.

use crate::operation::{Operation, Placement};
use crate::serial::{self, HOLDER};
use crate::table::{Table, Times};
use std::sync::atomic::{AtomicU64, Ordering};

/// Times in the words are in sixteenths of a nanosecond.
const PARTS: f64 = 16.0;

/// Longest time that a side may be occupied, in nanoseconds: a larger one is no time.
pub const LONGEST: u64 = 60_000_000_000;

/// A side of a node that requests occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The sending side of its port.
    Out,
    /// The receiving side of its port.
    In,
    /// Its memory.
    Memory,
}

impl Resource {
    /// Returns the index of its word: a cache line for each, behind one for the node's owner.
    pub fn index(self) -> usize {
        8 * (1 + self as usize)
    }
}

/// Words of a node.
pub const WORDS: usize = 32;

/// The words of all nodes.
pub trait Words {
    /// Returns a word of a node, with an index below [`WORDS`]; none if there is no such node.
    fn word(&self, node: usize, index: usize) -> Option<&AtomicU64>;
}

/// A request that is posted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// Where its payload is.
    pub placement: Placement,
    /// Bytes of user data.
    pub bytes: u64,
    /// The time, in nanoseconds.
    pub now: u64,
    /// Its node.
    pub own: usize,
    /// The peer's node, if that is emulated.
    pub peer: Option<usize>,
    /// Its queue pair's number, unique on the host.
    pub queue_pair: u32,
}

impl Request {
    /// Returns whether its data come from the peer.
    pub(crate) fn is_fetched(&self) -> bool {
        self.operation == Operation::Read
    }
}

/// Occupies a side for some nanoseconds from `now`, or from when it is free. Returns the
/// nanoseconds until then.
pub fn occupy(word: &AtomicU64, now: u64, time: f64) -> u64 {
    let now = now.saturating_mul(PARTS as u64);
    let taken = (time * PARTS) as u64;
    let start = |free: u64| match free > now.saturating_add(LONGEST * PARTS as u64) {
        true => now,
        false => free.max(now),
    };
    let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let next = |free: u64| Some(start(free).saturating_add(taken));
    // Rust 1.99 renames it to `try_update`, which the oldest supported version lacks.
    #[allow(deprecated)]
    let before = word.fetch_update(order, failure, next).unwrap_or(0);
    (start(before) - now) / PARTS as u64
}

/// Occupies a side of a node as [`occupy`] does, if there is such a node and it takes time.
pub(crate) fn occupy_side(
    words: &impl Words,
    (node, resource): (Option<usize>, Resource),
    now: u64,
    time: f64,
) -> u64 {
    let word = node.filter(|_| time > 0.0);
    let word = word.and_then(|node| words.word(node, resource.index()));
    word.map_or(0, |word| occupy(word, now, time))
}

impl Table {
    /// Occupies the sides of the nodes that a request with these times needs. Returns the
    /// nanoseconds for which it waits.
    pub fn reserve(&self, request: &Request, times: &Times, words: &impl Words) -> u64 {
        if let Some(turns) = self.serial() {
            return turns.reserve(request, times, words);
        }
        let (own, peer) = (Some(request.own), request.peer);
        let (from, to) = match request.is_fetched() {
            false => (own, peer),
            true => (peer, own),
        };
        let sides = [
            ((from, Resource::Out), times.sending),
            ((to, Resource::In), times.sending),
            ((own, Resource::Memory), times.memory),
            (
                (peer.filter(|_| peer != own), Resource::Memory),
                times.memory,
            ),
        ];
        let waits = sides
            .into_iter()
            .map(|(side, time)| occupy_side(words, side, request.now, time));
        waits.max().unwrap_or(0)
    }
}

// The words of serial adapters are beside those of the sides.
const _: () = {
    assert!(serial::FIRST_SLOT > 0 && serial::FIRST_SLOT + serial::SLOTS <= 8);
    assert!(HOLDER > 8 && HOLDER < 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_is_occupied_is_waited_for() {
        let word = AtomicU64::new(0);
        assert_eq!(occupy(&word, 1000, 100.5), 0);
        assert_eq!(occupy(&word, 1000, 100.0), 100);
        assert_eq!(occupy(&word, 1150, 1.0), 50);
        assert_eq!(occupy(&word, 5000, 1.0), 0);
    }

    #[test]
    fn a_word_that_is_no_time_is_free() {
        let word = AtomicU64::new(u64::MAX);
        assert_eq!(occupy(&word, 1000, 10.0), 0);
        assert_eq!(occupy(&word, 1000, 10.0), 10);
    }
}
