//! Loom's atomics under the names that the algorithms use.

pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// The fence that SeqCst operations imply: loom treats them as AcqRel (its documentation says so).
pub fn model_fence() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Does nothing: a cache hint has no observable effect.
pub fn prefetch_to_write<T>(_word: &T) {}

loom::lazy_static! {
    /// Number of heavy barriers begun, and of those that the other thread has passed.
    static ref BEGUN: AtomicU32 = AtomicU32::new(0);
    static ref PASSED: AtomicU32 = AtomicU32::new(0);
}

/// A point at which the heavy barrier of another thread may fall: a fence if it does, and nothing
/// at all if not. Models have two threads, of which one makes heavy barriers; the other ends with
/// [`pass_all_barriers`].
pub fn light_barrier() {
    let begun = BEGUN.load(Ordering::Relaxed);
    if PASSED.load(Ordering::Relaxed) < begun {
        fence(Ordering::SeqCst);
        PASSED.store(begun, Ordering::Release);
    }
}

/// As [`light_barrier`]: a heavy barrier may fall here too, although no instruction is needed.
pub fn model_barrier() {
    light_barrier();
}

/// Passes all further barriers, as the system does for a thread that is not running.
pub fn pass_all_barriers() {
    fence(Ordering::SeqCst);
    PASSED.store(u32::MAX, Ordering::Release);
}

/// Waits until the other thread has passed a fence.
pub fn heavy_barrier() {
    fence(Ordering::SeqCst);
    let begun = BEGUN.load(Ordering::Relaxed) + 1;
    BEGUN.store(begun, Ordering::Relaxed);
    while PASSED.load(Ordering::Acquire) < begun {
        loom::thread::yield_now();
    }
    fence(Ordering::SeqCst);
}

/// Loom's barrier always exists.
pub fn has_heavy_barrier() -> bool {
    true
}

/// A heavy barrier may also fall while a thread waits, and finally does.
pub fn wait_a_little(_looks: &mut u32) {
    light_barrier();
    loom::thread::yield_now();
}
