//! The atomics that the shared-memory algorithms are written with. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing here. The model checker takes SeqCst operations for AcqRel; there this is the fence that they imply.
#[inline(always)]
pub fn model_fence() {}

/// Has the cache line of a word brought near for reading, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(word: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// As [`prefetch`], for writing: other processors lose the line.
#[inline(always)]
pub fn prefetch_to_write<T>(word: &T) {
    // By name: the compiler would make it a hint for reading unless told that the processor has this one. 64-bit
    // processors that have it not take the instruction for a no-op.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it changes nothing and cannot fault.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) std::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}
