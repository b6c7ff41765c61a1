//! Going to sleep without missing what comes meanwhile: the one protocol for it.
//!
//! A process's progress thread sleeps on descriptors. To ring one costs a system call, so peers do it only while the
//! thread's word `armed`, which it shows them, is odd, and each of them once for each of its values: a thread that was
//! woken may have to wait for a processor, and nobody rings for every message until it has one. The law:
//!
//! - The sleeper *arms*, then *looks once more*, then sleeps, and is woken by any ring since it began to arm (rings are
//!   kept by the descriptor until they are taken). [`before_sleep`] does the first two.
//! - Whoever has something for it *publishes* that first, then asks whether to *ring*: [`ring_if_armed`].
//! - Every arming gives the word a value that it never had. So whoever rang for the value that it sees rang since then,
//!   and the sleeper has that ring before it, and behind it the next look.
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

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence, model_fence};

/// Sleeper: arms and looks once more. Returns whether it may sleep: the look found nothing.
pub fn before_sleep(armed: &AtomicU64, look: impl FnOnce() -> bool) -> bool {
    arm(armed);
    !look()
}

/// Asks for rings from now on, also from those that have rung already: the next odd number.
pub fn arm(armed: &AtomicU64) {
    step(armed, |word| (word + 1) | 1);
    fence(Ordering::SeqCst);
}

/// Asks for no rings: the next even number.
fn disarm(armed: &AtomicU64) {
    step(armed, |word| (word + 1) & !1);
    fence(Ordering::SeqCst);
}

/// Threads that wait for events arm beside the sleeper, and no value may come twice.
fn step(armed: &AtomicU64, next: impl Fn(u64) -> u64) {
    let mut word = armed.load(Ordering::Relaxed);
    while let Err(other) =
        armed.compare_exchange(word, next(word), Ordering::SeqCst, Ordering::Relaxed)
    {
        word = other;
    }
}

/// Whether a value of the word asks for rings.
#[inline]
pub fn is_armed(word: u64) -> bool {
    word & 1 != 0
}

/// Sleeper, awake again: wants no rings, unless it is told that events are waited for and nobody looks by itself.
///
/// Whoever begins to wait for events counts itself first and arms then ([`want_rings`]); so it is either seen by `wanted`,
/// which is asked when rings are wanted no more, or its arming comes after this disarming.
pub fn after_sleep(armed: &AtomicU64, wanted: impl FnOnce() -> bool) {
    disarm(armed);
    if wanted() {
        arm(armed);
    }
}

/// Somebody begins to wait for events, which it says by a number in `armings` that was never there before: rings are wanted
/// until the sleeper knows better.
pub fn want_rings(armed: &AtomicU64, armings: &AtomicUsize) {
    armings.fetch_add(1, Ordering::SeqCst);
    model_fence();
    arm(armed);
}

/// As [`want_rings`], for one who wanted them before: where the word asks for rings already, those who have rung for it need
/// not again, for the sleeper takes their ring before it takes the word back, and asks after `armings` behind that.
pub fn want_rings_still(armed: &AtomicU64, armings: &AtomicUsize) {
    armings.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !is_armed(armed.load(Ordering::SeqCst)) {
        arm(armed);
    }
}

/// Publisher, after it has published: rings if the sleeper may be asleep. `rung` is what of the sleeper's word this
/// publisher has rung for last; threads that share it may ring twice, which is once too often and no harm. `ring` says
/// whether it could.
#[inline]
pub fn ring_if_armed(armed: &AtomicU64, rung: &AtomicU64, ring: impl FnOnce() -> bool) {
    fence(Ordering::SeqCst);
    let word = armed.load(Ordering::SeqCst);
    if is_armed(word) && rung.load(Ordering::Relaxed) != word && ring() {
        rung.store(word, Ordering::Relaxed);
    }
}
