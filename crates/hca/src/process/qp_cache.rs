//! The queue pair that was looked up last.

use std::sync::Arc;
use verbena_hca_memory::tables::NumberTable;

/// A queue pair that can be found by its number.
pub trait Numbered {
    /// Returns its number.
    fn number(&self) -> u32;
    /// Returns its incarnation.
    fn incarnation(&self) -> u32;
    /// Returns whether it is destroyed.
    fn is_destroyed(&self) -> bool;
}

/// Cache of the queue pair that the last record was for. The next record is likely for the same
/// one, and a lookup with reference counting takes longer than checking a message.
pub struct QpCache<Q>(Option<Arc<Q>>);

impl<Q> Default for QpCache<Q> {
    fn default() -> QpCache<Q> {
        QpCache(None)
    }
}

impl<Q: Numbered> QpCache<Q> {
    /// Returns the queue pair with a number.
    #[inline]
    pub fn find(&mut self, queue_pairs: &NumberTable<Q>, number: u32) -> Option<&Arc<Q>> {
        let is_it = |qp_cache: &Arc<Q>| qp_cache.number() == number && !qp_cache.is_destroyed();
        if !self.0.as_ref().is_some_and(is_it) {
            self.0 = queue_pairs.find(number);
        }
        self.0.as_ref()
    }
}
