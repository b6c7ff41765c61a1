//! Descriptors of connections that are being made. A forked child must give its copies up like those of channels that
//! are made already, or peers would not see the parent's death while the child lives.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The descriptors of the moment.
#[derive(Debug, Default)]
pub struct Handshakes {
    descriptors: Mutex<HashSet<RawFd>>,
}

impl Handshakes {
    fn lock(&self) -> MutexGuard<'_, HashSet<RawFd>> {
        self.descriptors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub(super) fn add(&self, fd: RawFd) {
        self.lock().insert(fd);
    }

    /// It is closed, or a channel's now.
    pub(super) fn remove(&self, fd: RawFd) {
        self.lock().remove(&fd);
    }

    /// All.
    pub(super) fn all(&self) -> Vec<RawFd> {
        self.lock().iter().copied().collect()
    }
}
