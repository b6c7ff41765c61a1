//! The atomics that the shared-memory algorithms are written with. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Nothing here. The model checker takes SeqCst operations for AcqRel; there this is the fence that they imply.
#[inline(always)]
pub fn model_fence() {}

/// Has the cache line of a word brought near for writing, without waiting for it: other processors lose the line.
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
