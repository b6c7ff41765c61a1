//! How far a copy is.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts while a copy runs; another thread may look.
#[derive(Debug, Default)]
pub struct Progress {
    expected: AtomicU64,
    moved: AtomicU64,
    kept: AtomicU64,
    files: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that are to be there in the end, as far as it is known.
    pub expected: u64,
    /// Bytes that travelled.
    pub moved: u64,
    /// Bytes that were right already.
    pub kept: u64,
    /// Files that are complete.
    pub files: u64,
}

impl Progress {
    /// More bytes are to be there.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes travelled.
    pub fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes were right already.
    pub fn kept(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file is complete.
    pub fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn report(&self) -> Report {
        Report {
            expected: self.expected.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
        }
    }
}
