//! Loom's atomics under the names that the algorithms use.

pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Loom takes SeqCst operations for AcqRel (its documentation says so); this is the fence that they imply.
pub fn model_fence() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Nothing: a hint to the cache has no effect that could be seen.
pub fn prefetch_to_write<T>(_word: &T) {}
