//! Atomics for the shared-memory algorithms. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::barrier;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

/// Does nothing. The model checker treats SeqCst operations as AcqRel; its version of this is the
/// fence that they imply.
#[inline(always)]
pub fn model_fence() {}

/// Prefetches the cache line of a word for writing, without waiting for it. Other processors lose
/// the line.
#[inline(always)]
pub fn prefetch_to_write<T>(word: &T) {
    // By inline assembly: the compiler would emit a read prefetch unless built for a processor with
    // this instruction. 64-bit processors without it execute it as a no-op.
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

/// The cheap side of [`heavy_barrier`]: the compiler keeps accesses before it ahead of those behind
/// it, and so does the processor whenever a heavy barrier of another thread falls between.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Does nothing. The model checker lets the heavy barrier of another thread fall between any two
/// accesses here.
#[inline(always)]
pub fn model_barrier() {}

/// Makes every thread of the process pass a full fence during the call. Only where
/// [`has_heavy_barrier`] is true.
pub fn heavy_barrier() {
    barrier::fence_all_threads();
}

/// Returns whether there is such a barrier.
pub fn has_heavy_barrier() -> bool {
    barrier::is_available()
}

/// Looks before the first yield.
const SPINS: u32 = 64;
/// Yields before each nap. Threads that yield for ever can keep whole groups of processes from the
/// processor: on Linux 6.18 two yielding threads, beside some of the same session that slept
/// briefly, blocked those of another session for 10 s out of 10 s; with a nap after 64 yields no
/// thread waited for more than 8 ms.
const YIELDS: u32 = 64;
/// Looks before the first nap.
const LOOKS: u32 = SPINS + YIELDS;
const NAP: Duration = Duration::from_micros(50);

/// Pauses between two looks at a word that another thread is about to change, if it runs; `looks`
/// counts them.
#[cold]
pub fn wait_a_little(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    match *looks {
        0..SPINS => std::hint::spin_loop(),
        SPINS..LOOKS => std::thread::yield_now(),
        _ => std::thread::sleep(NAP),
    }
}

/// Looks before the first yield of a thread that has other work to look for as well: enough for the
/// other thread to finish if it runs.
const PATIENT_LOOKS: u32 = 1024;

/// Returns whether [`look_again_later`] has nothing to do at the next look but to count it.
#[inline]
pub fn is_patient(looks: u32) -> bool {
    looks + 1 < PATIENT_LOOKS
}

/// As [`wait_a_little`], for a thread that looks for other work as well and so naps seldom.
#[cold]
pub fn look_again_later(looks: &mut u32) {
    const NAP_AFTER: u32 = PATIENT_LOOKS + YIELDS;
    *looks = looks.saturating_add(1);
    match *looks {
        0..PATIENT_LOOKS => (),
        PATIENT_LOOKS..NAP_AFTER => std::thread::yield_now(),
        _ => {
            std::thread::sleep(NAP);
            *looks = PATIENT_LOOKS;
        }
    }
}
