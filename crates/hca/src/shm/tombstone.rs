//! An atomic on a word that may be moved away from under a thread which is stopped in the middle of it: whether it took
//! effect, which a copy alone would leave open.
//!
//! The law: whoever does the atomic *announces* the word, looks whether its right still holds, and does it. Whoever moves
//! the word hides its place first, looks then which words are announced, copies, and *retires* each of these: it says in
//! the mark which value is the tombstone, and exchanges the old word for it. What it gets back is the word's value at the
//! new place.
//!
//! - SYNC POINT tombstone: a fence lies between announcing and looking at the right, and between hiding and looking at what
//!   is announced; so either the one sees that the right is gone and does nothing, or the other sees the word.
//! - The exchange comes before the atomic or after it. After it, what it got back contains the atomic. Before it, the
//!   atomic finds the tombstone: then it was done where nobody looks any more, and is done again.
//!
//! The tombstone is a random number; a word that happens to hold it is as likely as 64 coins that fall alike.
//!
//! `hca-loom` compiles this very file and checks that each atomic takes effect once.

use crate::sync::{AtomicU64, Ordering, fence};

/// Says which word, by its offset in the arena, an atomic is about to be done on. The right must be looked at again now.
#[inline]
pub fn announce(word: &AtomicU64, tombstone: &AtomicU64, offset: u64) {
    tombstone.store(0, Ordering::Relaxed);
    word.store(offset + 1, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// The atomic is done, and what it found is judged.
#[inline]
pub fn withdraw(word: &AtomicU64) {
    word.store(0, Ordering::Release);
}

/// The word that is announced, if any. A fence lies between hiding its place and this.
pub fn announced(word: &AtomicU64) -> Option<u64> {
    word.load(Ordering::Acquire).checked_sub(1)
}

/// Says what the word's tombstone will be. Before [`retire`].
pub fn engrave(tombstone: &AtomicU64, nonce: u64) {
    tombstone.store(nonce, Ordering::Release);
}

/// Puts the tombstone in the place of a word that was copied; gives the value that belongs at its new place.
pub fn retire(memory: &AtomicU64, nonce: u64) -> u64 {
    memory.swap(nonce, Ordering::AcqRel)
}

/// Whether an atomic that found this was done on a word that had been retired.
pub fn was_void(tombstone: &AtomicU64, found: u64) -> bool {
    let engraved = tombstone.load(Ordering::Acquire);
    engraved != 0 && engraved == found
}
