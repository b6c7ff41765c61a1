//! Atomics on words that may be moved while a thread is stopped in the middle of one: determines
//! whether the atomic took effect, which a copy alone would leave open.
//!
//! The protocol: the thread that does the atomic *announces* the word, checks that its right still
//! holds, and does it. The thread that moves the word first hides its arena offset, then reads
//! which words are announced, copies, and *retires* each of them: it writes the tombstone's value
//! to the mark, and exchanges the old word for the tombstone. The exchange returns the word's value
//! for the new place.
//!
//! - SYNC POINT tombstone: a fence lies between announcing and checking the right, and between
//!   hiding the offset and reading the announcements; so either the first thread sees that it has
//!   lost the right and does nothing, or the second sees the word.
//! - The exchange comes before the atomic or after it. If after, the exchanged value contains the
//!   atomic. If before, the atomic reads the tombstone: then it was done on a retired word, and is
//!   done again.
//!
//! The tombstone is a random number; a word contains it by accident with probability 2^-64.
//!
//! `hca-loom` compiles this very file and checks that each atomic takes effect once.

use crate::sync::{AtomicU64, Ordering, fence};

/// Announces an atomic on a word, by its offset in the arena. The caller must check its right again
/// afterwards.
#[inline]
pub fn announce(word: &AtomicU64, tombstone: &AtomicU64, offset: u64) {
    tombstone.store(0, Ordering::Relaxed);
    word.store(offset + 1, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// Ends the announcement: the atomic is done, and its result was checked with [`was_void`].
#[inline]
pub fn withdraw(word: &AtomicU64) {
    word.store(0, Ordering::Release);
}

/// Returns the announced word, if any. The caller passes a fence after hiding the word's offset and
/// before this call.
pub fn announced(word: &AtomicU64) -> Option<u64> {
    word.load(Ordering::Acquire).checked_sub(1)
}

/// Writes the word's tombstone to the mark. Before [`retire`].
pub fn write_nonce(tombstone: &AtomicU64, nonce: u64) {
    tombstone.store(nonce, Ordering::Release);
}

/// Replaces a copied word by the tombstone. Returns the value for its new place.
pub fn retire(memory: &AtomicU64, nonce: u64) -> u64 {
    memory.swap(nonce, Ordering::AcqRel)
}

/// Returns whether an atomic that read `found` was done on a retired word.
#[inline]
pub fn was_void(tombstone: &AtomicU64, found: u64) -> bool {
    let engraved = tombstone.load(Ordering::Acquire);
    engraved != 0 && engraved == found
}
