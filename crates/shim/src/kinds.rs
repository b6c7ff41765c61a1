//! The kind of each descriptor, one word each.
//!
//! A number may be closed without the shim's notice (a system call, `close_range`) and then refer
//! to another file, so callers verify the file before they act on a kind.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, stat as Stat};

/// The kind of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DescriptorKind {
    /// None of the device's.
    None,
    /// An event channel of the connection manager.
    Channel,
    /// A completion channel, with records of 8 bytes.
    Completions,
    /// Asynchronous events, with records of 16 bytes.
    Asynchronous,
    /// Management datagrams.
    Datagrams,
}

const KINDS: [DescriptorKind; 8] = [
    DescriptorKind::None,
    DescriptorKind::Channel,
    DescriptorKind::Completions,
    DescriptorKind::Asynchronous,
    DescriptorKind::Datagrams,
    DescriptorKind::None,
    DescriptorKind::None,
    DescriptorKind::None,
];
/// Bits of the kind; for files other than channels the bits above are the inode number.
const BITS: u32 = 3;

/// Descriptors below this number can have a kind.
pub const MOST: usize = 1 << 16;
static WORDS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

fn place(descriptor: c_int) -> Option<&'static AtomicU64> {
    WORDS.get(usize::try_from(descriptor).ok()?)
}

fn word(descriptor: c_int) -> u64 {
    place(descriptor).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// Returns the kind of a descriptor.
#[inline]
pub fn of(descriptor: c_int) -> DescriptorKind {
    KINDS[word(descriptor) as usize % KINDS.len()]
}

/// Sets the kind; returns false if the number is too large.
pub fn set(descriptor: c_int, kind: DescriptorKind) -> bool {
    put(descriptor, kind as u64)
}

/// Sets the kind of a file of events or datagrams, with its inode for [`is_still`].
pub fn set_events(descriptor: c_int, kind: DescriptorKind) {
    put(descriptor, inode(descriptor) << BITS | kind as u64);
}

/// Gives `copy` the kind of `original`.
pub fn copy(original: c_int, copy: c_int) {
    put(copy, word(original));
}

/// Returns whether a descriptor is still the same file of events or datagrams.
pub fn is_still(descriptor: c_int) -> bool {
    has_inode(descriptor, inode(descriptor))
}

/// Returns whether a descriptor's kind was set for the file of this inode number.
pub fn has_inode(descriptor: c_int, inode: u64) -> bool {
    inode << BITS == word(descriptor) & !(KINDS.len() as u64 - 1)
}

fn put(descriptor: c_int, word: u64) -> bool {
    let place = place(descriptor);
    place
        .map(|place| place.store(word, Ordering::Relaxed))
        .is_some()
}

/// Returns the inode number of the file at a descriptor, or 0.
fn inode(descriptor: c_int) -> u64 {
    // SAFETY: zeros are a valid status, which the call may overwrite.
    unsafe {
        let mut status: Stat = mem::zeroed();
        libc::fstat(descriptor, &mut status);
        status.st_ino
    }
}
