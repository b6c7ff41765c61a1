//! A mark of one thread that accesses another process's memory itself: a counter that is odd
//! meanwhile.
//!
//! The thread that accesses memory enters, loads the word that makes the memory valid (a key, a
//! queue pair's state) with SeqCst, and leaves when it is done. The thread that takes the memory
//! away zeroes that word with SeqCst and then loads the counter. SYNC POINT access: in the single
//! order of these four operations either the first sees the zero, or the second sees the odd
//! counter and waits. `hca-loom` checks it. The same holds for a key's generation, which is changed
//! instead of zeroed.

use crate::sync::{AtomicU64, Ordering, model_fence};

/// Enters a section, unless another thread is in one with the same counter. Returns the value that
/// [`leave`] needs.
#[inline]
pub fn enter(counter: &AtomicU64) -> Option<u64> {
    let idle = counter.load(Ordering::Relaxed) & !1;
    let entered = idle | 1;
    counter
        .compare_exchange(idle, entered, Ordering::SeqCst, Ordering::Relaxed)
        .ok()?;
    model_fence();
    Some(entered)
}

/// Leaves a section.
#[inline]
pub fn leave(counter: &AtomicU64, entered: u64) {
    counter.store(entered.wrapping_add(1), Ordering::Release);
}

/// Returns the open section, if any. Called after the word that makes the memory valid was zeroed.
#[inline]
pub fn open_section(counter: &AtomicU64) -> Option<u64> {
    model_fence();
    let seen = counter.load(Ordering::SeqCst);
    (seen & 1 == 1).then_some(seen)
}
