//! The one protocol for going to sleep without missing a wake-up.
//!
//! The progress thread of a process sleeps on descriptors. Ringing one costs a system call, so
//! peers do it only while the thread's shared word `armed` is odd, and each of them once for each
//! value: a woken thread may have to wait for a processor, and peers must not ring for every
//! message until it runs. The rules:
//!
//! - The sleeper *arms*, then *looks once more*, then sleeps. Any ring since it began to arm wakes
//!   it (the descriptor keeps rings until they are taken). [`before_sleep`] does the first two
//!   steps.
//! - A publisher *publishes* first, then asks whether to *ring*: [`ring_if_armed`].
//! - Every arming gives the word a new value. So a publisher that has rung for the value it sees
//!   rang after that arming; the sleeper has that ring before it, and behind it the next look.
//! - SYNC POINT sleep: a fence of sequential consistency lies between the sleeper's arming and its
//!   look, and between the publisher's store and its load of the word. One of the two fences comes
//!   first; so either the look sees the published data, or the publisher sees the sleeper armed.
//!
//! Callers must observe:
//! 1. Everything that the look is to find is *announced* before it can be seen by a party that
//!    would act on it: a look that first reads a word to decide whether to look at all
//!    ([`crate::flight`]) must find that word set as soon as there is anything to see.
//! 2. The look leaves nothing to another thread's look, which may have been earlier. So it waits
//!    for locks.
//! 3. A thread that waits for a change made by the sleeper (room in a ring, say) registers where
//!    the sleeper will find it, under the same lock under which it saw that it has to wait.
//! 4. Disarming comes before the next look at the data that the rings were for, never after it.
//!
//! `hca-loom` compiles this very file and checks it, and checks that breaking 1, 2 or 3 loses
//! wake-ups.

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence, model_fence};

/// Sleeper: arms and looks once more. Returns whether it may sleep, that is, whether the look found
/// nothing.
pub fn before_sleep(armed: &AtomicU64, look: impl FnOnce() -> bool) -> bool {
    arm(armed);
    !look()
}

/// Asks for rings from now on, also from publishers that have rung already: sets the next odd
/// number.
pub fn arm(armed: &AtomicU64) {
    step(armed, |word| (word + 1) | 1);
    fence(Ordering::SeqCst);
}

/// Asks for no rings: sets the next even number.
fn disarm(armed: &AtomicU64) {
    step(armed, |word| (word + 1) & !1);
    fence(Ordering::SeqCst);
}

/// Steps the word. Threads that wait for events arm it as well as the sleeper, and no value may
/// come twice.
fn step(armed: &AtomicU64, next: impl Fn(u64) -> u64) {
    let mut word = armed.load(Ordering::Relaxed);
    while let Err(other) =
        armed.compare_exchange(word, next(word), Ordering::SeqCst, Ordering::Relaxed)
    {
        word = other;
    }
}

/// Returns whether a value of the word asks for rings.
#[inline]
pub fn is_armed(word: u64) -> bool {
    word & 1 != 0
}

/// Sleeper, awake again: asks for no rings, unless `wanted` says that events are waited for and no
/// thread polls.
///
/// A thread that begins to wait for events counts itself first and then arms ([`want_rings`]). So
/// either `wanted`, which is called after disarming, sees it, or its arming comes after this
/// disarming.
pub fn after_sleep(armed: &AtomicU64, wanted: impl FnOnce() -> bool) {
    disarm(armed);
    if wanted() {
        arm(armed);
    }
}

/// A thread begins to wait for events and makes that known by a new number in `armings`: rings are
/// wanted until the sleeper decides otherwise.
pub fn want_rings(armed: &AtomicU64, armings: &AtomicUsize) {
    armings.fetch_add(1, Ordering::SeqCst);
    model_fence();
    arm(armed);
}

/// As [`want_rings`], for a queue that wanted rings before. If the word asks for rings already,
/// publishers that have rung for it need not ring again, because the sleeper takes their ring
/// before it disarms, and reads `armings` after that.
pub fn want_rings_still(armed: &AtomicU64, armings: &AtomicUsize) {
    armings.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !is_armed(armed.load(Ordering::SeqCst)) {
        arm(armed);
    }
}

/// Publisher, after it has published: rings if the sleeper may be asleep. `rung` is the value of
/// the sleeper's word for which this publisher last rang; threads that share it may ring twice,
/// which is harmless. `ring` returns whether it succeeded.
#[inline]
pub fn ring_if_armed(armed: &AtomicU64, rung: &AtomicU64, ring: impl FnOnce() -> bool) {
    fence(Ordering::SeqCst);
    let word = armed.load(Ordering::SeqCst);
    if is_armed(word) && rung.load(Ordering::Relaxed) != word && ring() {
        rung.store(word, Ordering::Relaxed);
    }
}
