//! The atomics that the shared-memory algorithms are written with. `hca-loom` compiles the same algorithms with its own
//! module of this name, so that the model checker sees every access.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::sys::barrier;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

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

/// The cheap side of [`heavy_barrier`]: the compiler keeps what is before it before what is behind it, and so will the
/// processor whenever a heavy barrier of another thread falls between.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Nothing here. The model checker lets the heavy barrier of another thread fall between any two accesses where this is.
#[inline(always)]
pub fn model_barrier() {}

/// Every thread of the process passes a full fence while this is called. Only where [`can_bar`].
pub fn heavy_barrier() {
    barrier::pass_by_all();
}

/// Whether there is such a barrier.
pub fn can_bar() -> bool {
    barrier::is_there()
}

/// Looks before others are let run.
const SPINS: u32 = 64;
/// How often others are let run before the next nap. Who yields for ever may keep whole groups of processes from the
/// processor: on Linux 6.18 two threads that yield, beside some of theirs that sleep for moments, held up those of another
/// session for 10 s in 10 s; with a nap after 64 times nobody waited for more than 8 ms.
const YIELDS: u32 = 64;
/// Looks before the first nap.
const LOOKS: u32 = SPINS + YIELDS;
const NAP: Duration = Duration::from_micros(50);

/// Between two looks at a word that another thread is about to change, if it runs; `looks` counts them.
#[cold]
pub fn wait_a_little(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    match *looks {
        0..SPINS => std::hint::spin_loop(),
        SPINS..LOOKS => std::thread::yield_now(),
        _ => std::thread::sleep(NAP),
    }
}

/// Looks before one who has other things to look for as well lets others run: so many that the other thread would be done
/// if it ran.
const PATIENT_LOOKS: u32 = 1024;

/// As [`wait_a_little`], for one who looks for other things as well and so naps seldom.
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
