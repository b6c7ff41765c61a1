//! Positions up to which a channel's requests have been sent and acknowledged: words that tell
//! without a lock whether there is anything to look for.
//!
//! A record is *announced* before it is published; this is the first condition of
//! [`crate::sleep`]. So a thread that goes to sleep on an idle channel knows that no record in
//! it can be answered without a doorbell ring. An announcement without a publication is corrected
//! by the next one, or never: then a look finds nothing, at a cost to the looking thread alone.

use crate::sync::{AtomicU64, Ordering};

/// Positions in a request ring, both of which only grow. They share a cache line, because polling
/// reads those of every peer.
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
    /// Requester, under the lock that it publishes under: announces a record that ends at `end`.
    #[inline]
    pub fn announce(&self, end: u64) {
        // Release is enough: a thread that acts on the record has acquired it, and this store comes
        // before its publication.
        self.pushed.store(end, Ordering::Release);
    }

    /// Returns the end of the last announced record.
    #[inline]
    pub fn announced(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Requester, under the lock that it completes under: notes that everything up to the
    /// responder's position `head` is complete.
    ///
    /// Not earlier: a thread that serves a request of the same peer first completes the requests
    /// that it acknowledges, and looks no further where the channel is idle.
    #[inline]
    pub fn note_acknowledged(&self, head: u64) {
        // SYNC POINT complete: a thread that sees the channel idle sees the completions, too.
        self.acknowledged.store(head, Ordering::Release);
    }

    /// The responder is dead: nothing will be acknowledged any more, and there is nothing to look
    /// for.
    pub fn close(&self) {
        self.note_acknowledged(self.announced());
    }

    /// Returns whether the responder's position `head` acknowledges anything that was not taken
    /// yet.
    #[inline]
    pub fn has_news(&self, head: u64) -> bool {
        head != self.acknowledged.load(Ordering::Relaxed)
    }

    /// Returns the position up to which acknowledged requests have been taken.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Returns whether there is nothing to wait for.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // SYNC POINT complete: see [`Flight::note_acknowledged`].
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        self.pushed.load(Ordering::Relaxed) == acknowledged
    }
}
