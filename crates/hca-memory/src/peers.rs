//! Accesses of peers to the memory of this process, as far as the memory must know of them.

use std::sync::Arc;
use verbena_hca_shm::section::WordUnderWay;

/// The peers with access to the memory.
pub trait Peers: Send + Sync {
    /// Waits until every section of a peer, and of a local thread on behalf of a channel, that was
    /// open at the call has ended. Returns those of stopped peers.
    fn wait_for_sections(&self) -> Vec<Held>;

    /// Calls `action` with the words on which stopped peers have atomics in progress.
    fn with_pending_atomics(&self, action: &mut dyn FnMut(&[WordUnderWay<'_>]));
}

/// A section of a peer that was still open at the end of the wait.
pub trait OpenSection: Send + Sync {
    /// Returns the key of the memory that the peer may be copying into.
    fn key(&self) -> u32;

    /// Returns whether the section or its process has ended.
    fn is_over(&self) -> bool;

    /// Waits longer, and finally treats the process as dead; for pages that cannot be moved away
    /// (no userfaultfd, no memory, or device memory).
    fn wait_or_cut_off(&self);
}

/// A shared [`OpenSection`].
pub type Held = Arc<dyn OpenSection>;
