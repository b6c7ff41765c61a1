//! Going to sleep without missing what comes meanwhile: the one protocol for it.
//!
//! A process's progress thread sleeps on descriptors. To ring one costs a system call, so peers do it only while the
//! thread's word `armed`, which it shows them, is not zero. The law:
//!
//! - The sleeper *arms*, then *looks once more*, then sleeps, and is woken by any ring since it began to arm (rings are
//!   kept by the descriptor until they are taken). [`before_sleep`] does the first two.
//! - Whoever has something for it *publishes* that first, then asks whether to *ring*: [`ring_if_armed`].
//! - SYNC POINT sleep: a fence of sequential consistency lies between the sleeper's arming and its look, and between the
//!   publisher's store and its asking. One of the two fences comes first; so either the look sees what was published, or
//!   the publisher sees the sleeper armed.
//!
//! What callers must keep to:
//! 1. Everything that the look is to find is *announced* before it can be seen by somebody who would act on it: a look
//!    that asks a word first whether to look at all ([`crate::process::flight`]) must find that word set as soon as there
//!    is anything to see.
//! 2. The look does not leave anything to another thread's look that may have been earlier. So it waits for locks.
//! 3. Whoever waits for a change that the sleeper makes known (room in a ring, say) puts itself where the sleeper will
//!    find it under the same lock under which it saw that it has to wait.
//! 4. Disarming comes before the next look at what the rings were for, never after it.
//!
//! `hca-loom` compiles this very file and checks it, and that breaking 1, 2 or 3 loses wake-ups.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, fence, model_fence};

/// Sleeper: arms and looks once more. Returns whether it may sleep: the look found nothing.
pub fn before_sleep(armed: &AtomicU32, look: impl FnOnce() -> bool) -> bool {
    arm(armed);
    !look()
}

/// Asks for rings from now on.
pub fn arm(armed: &AtomicU32) {
    armed.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Sleeper, awake again: wants no rings, unless events are waited for (`wanted` is not zero), when nobody looks by itself.
///
/// Whoever begins to wait for events counts itself first and arms then ([`want_rings`]); so it is either seen here, or
/// its arming comes after this disarming.
pub fn after_sleep(armed: &AtomicU32, wanted: &AtomicUsize) {
    armed.store(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if wanted.load(Ordering::SeqCst) > 0 {
        arm(armed);
    }
}

/// Somebody begins to wait for events: rings are wanted until it has stopped, which it says by subtracting from `wanted`.
pub fn want_rings(armed: &AtomicU32, wanted: &AtomicUsize) {
    wanted.fetch_add(1, Ordering::SeqCst);
    model_fence();
    arm(armed);
}

/// Publisher, after it has published: rings if the sleeper may be asleep.
#[inline]
pub fn ring_if_armed(armed: &AtomicU32, ring: impl FnOnce()) {
    fence(Ordering::SeqCst);
    if armed.load(Ordering::SeqCst) != 0 {
        ring();
    }
}
