//! Descriptors of connections during their handshake. A forked child must close its copies like
//! those of finished channels, or peers would not see the parent's death while the child lives.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The present descriptors.
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

    pub(super) fn add(&self, fd: RawFd) {
        self.lock().insert(fd);
    }

    /// Removes a descriptor that was closed or now belongs to a channel.
    pub(super) fn remove(&self, fd: RawFd) {
        self.lock().remove(&fd);
    }

    pub(super) fn all(&self) -> Vec<RawFd> {
        self.lock().iter().copied().collect()
    }
}
