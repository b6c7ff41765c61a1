//! Loom's atomics under the names that the algorithms use.

pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Loom takes SeqCst operations for AcqRel (its documentation says so); this is the fence that they imply.
pub fn model_fence() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Nothing: a hint to the cache has no effect that could be seen.
pub fn prefetch_to_write<T>(_word: &T) {}

loom::lazy_static! {
    /// How many heavy barriers were begun, and how many of them the other thread has passed.
    static ref BEGUN: AtomicU32 = AtomicU32::new(0);
    static ref PASSED: AtomicU32 = AtomicU32::new(0);
}

/// Where the heavy barrier of another thread may fall: a fence if it does, and nothing at all if not. Models have two
/// threads, of which one makes heavy barriers; the other ends with [`light_barriers_for_ever`].
pub fn light_barrier() {
    let begun = BEGUN.load(Ordering::Relaxed);
    if PASSED.load(Ordering::Relaxed) < begun {
        fence(Ordering::SeqCst);
        PASSED.store(begun, Ordering::Release);
    }
}

/// As [`light_barrier`]: it may fall here too, which takes no instruction.
pub fn model_barrier() {
    light_barrier();
}

/// What the system does for a thread that is not running.
pub fn light_barriers_for_ever() {
    fence(Ordering::SeqCst);
    PASSED.store(u32::MAX, Ordering::Release);
}

/// The other thread passes a fence while this is called.
pub fn heavy_barrier() {
    fence(Ordering::SeqCst);
    let begun = BEGUN.load(Ordering::Relaxed) + 1;
    BEGUN.store(begun, Ordering::Relaxed);
    while PASSED.load(Ordering::Acquire) < begun {
        loom::thread::yield_now();
    }
    fence(Ordering::SeqCst);
}

/// Loom's is always there.
pub fn can_bar() -> bool {
    true
}

/// Who waits may be met by a barrier too, and is in the end.
pub fn wait_a_little(_looks: &mut u32) {
    light_barrier();
    loom::thread::yield_now();
}
