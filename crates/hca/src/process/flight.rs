//! How far a channel's requests have been sent and acknowledged: the words that say without a lock whether there is
//! anything to look for.
//!
//! The law, which is the first condition of [`crate::shm::sleep`]: a record is *announced* before it is published, so
//! that whoever goes to sleep over a channel that seems idle knows that nothing in it can be answered before it is rung
//! for. An announcement for which nothing is published in the end is taken back by the next one, or by nobody: then the
//! look is taken for nothing, which harms only the one who looks.

use crate::sync::{AtomicU64, Ordering};

/// Positions in a request ring, both only ever growing. In one cache line, as whoever polls looks at those of every peer.
#[derive(Debug)]
#[repr(align(16))]
pub struct Flight {
    pushed: AtomicU64,
    acknowledged: AtomicU64,
}

impl Default for Flight {
    fn default() -> Flight {
        Flight {
            pushed: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        }
    }
}

impl Flight {
    /// Requester, under the lock that it publishes under: what ends at `end` is about to be published.
    #[inline]
    pub fn announce(&self, end: u64) {
        // Release is enough: who acts on the record has acquired it, and this store comes before its publication.
        self.pushed.store(end, Ordering::Release);
    }

    /// The end of what was announced.
    #[inline]
    pub fn announced(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Requester, under the lock that it completes under: everything up to the responder's position
    /// `head` is complete.
    ///
    /// Only then: who serves a request of the same peer completes first what that has acknowledged,
    /// and looks no further where the channel is idle.
    #[inline]
    pub fn note_acknowledged(&self, head: u64) {
        // SYNC POINT complete: whoever sees the channel idle sees the completions, too.
        self.acknowledged.store(head, Ordering::Release);
    }

    /// The responder is dead: nothing will be acknowledged any more, and nothing is to be looked for.
    pub fn close(&self) {
        self.note_acknowledged(self.announced());
    }

    /// Whether the responder's position `head` acknowledges anything that was not taken yet.
    #[inline]
    pub fn has_news(&self, head: u64) -> bool {
        head != self.acknowledged.load(Ordering::Relaxed)
    }

    /// Up to where what was acknowledged has been taken.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether there is nothing to wait for.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // SYNC POINT complete: see [`Flight::note_acknowledged`].
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        self.pushed.load(Ordering::Relaxed) == acknowledged
    }
}
