//! The atomics that the shared-memory algorithms are written with. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing here. The model checker takes SeqCst operations for AcqRel; there this is the fence that they imply.
#[inline(always)]
pub fn model_fence() {}

/// Has the cache line of a word brought near, without waiting for it.
#[inline(always)]
pub fn prefetch(word: &AtomicU32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}
