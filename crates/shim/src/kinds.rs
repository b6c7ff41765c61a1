//! Which descriptors stand for the device's files: a word each.
//!
//! A number may be closed by ways that do not come by here (a system call, `close_range`) and be
//! another file then, so who acts on a kind makes sure of the file first.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, stat as Stat};

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing of the device's.
    None,
    /// An event channel of the connection manager.
    Channel,
    /// A completion channel, whose records have 8 bytes.
    Completions,
    /// Asynchronous events, whose records have 16 bytes.
    Asynchronous,
}

const KINDS: [Kind; 4] = [
    Kind::None,
    Kind::Channel,
    Kind::Completions,
    Kind::Asynchronous,
];
/// The bits of a kind; above them, for events, the inode number of their pipe.
const BITS: u32 = 2;

/// Descriptors that can be of a kind: below this.
const MOST: usize = 1 << 16;
static WORDS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

fn place(descriptor: c_int) -> Option<&'static AtomicU64> {
    WORDS.get(usize::try_from(descriptor).ok()?)
}

fn word(descriptor: c_int) -> u64 {
    place(descriptor).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// The kind of a descriptor.
#[inline]
pub fn of(descriptor: c_int) -> Kind {
    KINDS[word(descriptor) as usize % KINDS.len()]
}

/// Sets it; false for a number beyond those that can have one.
pub fn set(descriptor: c_int, kind: Kind) -> bool {
    put(descriptor, kind as u64)
}

/// Sets it, of a file of events, by which [`is_still`] knows it.
pub fn set_events(descriptor: c_int, kind: Kind) {
    put(descriptor, inode(descriptor) << BITS | kind as u64);
}

/// What `original` is, `copy` is.
pub fn copy(original: c_int, copy: c_int) {
    put(copy, word(original));
}

/// Whether a descriptor still is the file of events that it was.
pub fn is_still(descriptor: c_int) -> bool {
    inode(descriptor) << BITS == word(descriptor) & !(KINDS.len() as u64 - 1)
}

fn put(descriptor: c_int, word: u64) -> bool {
    let place = place(descriptor);
    place
        .map(|place| place.store(word, Ordering::Relaxed))
        .is_some()
}

/// The inode number of the file at a descriptor, or 0.
fn inode(descriptor: c_int) -> u64 {
    // SAFETY: all zeros are a status, of which the call may write all.
    unsafe {
        let mut status: Stat = mem::zeroed();
        libc::fstat(descriptor, &mut status);
        status.st_ino
    }
}
