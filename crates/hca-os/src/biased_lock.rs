//! Biased locking: ownership of a lock. A thread that takes a lock again and again becomes its
//! *home* (the thread that the lock is biased to) and from then on takes it without a locked
//! instruction.
//!
//! Protocol:
//! - A lock has one home at most, for ever: the first thread that took it [`HABIT`] times in a row.
//!   `at_home` says whether the home may take the fast path now: it sets `held`, then reads
//!   `at_home` again.
//! - All other threads, and the home while it is not at home, take the slow path: they exchange
//!   `taken`; then, if the home is at home, they revoke the bias; then they wait for `held` to be
//!   clear. Only the owner of `taken` writes any word but `held`, and only the home sets `held`.
//! - SYNC POINT biased lock: to revoke the bias, a thread clears `at_home`, runs a barrier that
//!   makes every thread of the process pass a full fence ([`heavy_barrier`]), then reads `held`.
//!   The home stores `held`, passes a compiler barrier ([`light_barrier`]), and reads `at_home`.
//!   The fence falls between these two, before or after them: so either the home sees the
//!   revocation, or the revoking thread sees that the home holds the lock.
//! - A home that finds the bias revoked clears `held` again; other threads may find it set for that
//!   moment. That is why they wait for it, and why a lock has one home for ever: another home's
//!   word would be cleared with it.
//! - Each holder sees the writes of the previous one: both words are cleared with Release and read
//!   with Acquire, and a thread sees its own writes anyway.
//!
//! A revocation costs a system call. So after each one the number of acquisitions in a row that
//! make the home at home again doubles. `hca-loom` compiles this very file.

use crate::sync::{
    AtomicBool, AtomicU32, Ordering, has_heavy_barrier, heavy_barrier, light_barrier,
    model_barrier, wait_a_little,
};

/// Acquisitions in a row after which a thread is at home.
pub const HABIT: u32 = 16;
/// Upper limit of that number after revocations.
const MOST: u32 = 1 << 20;

/// The words of a lock. Threads are named by numbers other than 0.
#[derive(Debug)]
pub struct BiasedLock {
    /// The home, while it is at home; else 0.
    at_home: AtomicU32,
    held: AtomicBool,
    taken: AtomicBool,
    /// The home, or 0. This and the following words are protected by `taken`.
    home: AtomicU32,
    /// The thread that took the slow path last, and how often in a row.
    last: AtomicU32,
    streak: AtomicU32,
    /// Length of the streak that makes a thread at home.
    habit: AtomicU32,
}

impl BiasedLock {
    /// Returns a free lock that makes a thread its home after `habit` acquisitions in a row.
    #[inline]
    pub fn new(habit: u32) -> BiasedLock {
        BiasedLock {
            at_home: AtomicU32::new(0),
            held: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            home: AtomicU32::new(0),
            last: AtomicU32::new(0),
            streak: AtomicU32::new(0),
            habit: AtomicU32::new(habit),
        }
    }

    /// Waits for the lock. The caller releases it by clearing the returned word with Release.
    #[inline]
    pub fn take(&self, thread: u32) -> &AtomicBool {
        if self.take_biased(thread) {
            return &self.held;
        }
        self.take_slow(thread)
    }

    /// Returns the lock unless it is held.
    #[inline]
    pub fn try_take(&self, thread: u32) -> Option<&AtomicBool> {
        if self.take_biased(thread) {
            return Some(&self.held);
        }
        self.try_slow(thread)
    }

    /// Returns the lock if the thread is at home, and it is not held.
    #[inline]
    pub fn try_take_biased(&self, thread: u32) -> Option<&AtomicBool> {
        self.take_biased(thread).then_some(&self.held)
    }

    /// Returns the word that the home clears, for a lock that no thread takes.
    #[inline]
    pub fn unused_word(&self) -> &AtomicBool {
        &self.held
    }

    #[inline]
    fn take_biased(&self, thread: u32) -> bool {
        // Already held by the home itself, in a signal handler, say. That always ends in a
        // deadlock.
        if self.at_home.load(Ordering::Relaxed) != thread || self.held.load(Ordering::Relaxed) {
            return false;
        }
        model_barrier();
        self.held.store(true, Ordering::Relaxed);
        // SYNC POINT biased lock.
        light_barrier();
        if self.at_home.load(Ordering::Relaxed) == thread {
            return true;
        }
        self.held.store(false, Ordering::Release);
        false
    }

    fn take_slow(&self, thread: u32) -> &AtomicBool {
        let mut looks = 0;
        while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            wait_a_little(&mut looks);
        }
        self.revoke();
        while self.held.load(Ordering::Acquire) {
            wait_a_little(&mut looks);
        }
        self.count(thread)
    }

    fn try_slow(&self, thread: u32) -> Option<&AtomicBool> {
        // A load first: an exchange would needlessly take the cache line from the holder, and a
        // revocation costs more.
        if self.held.load(Ordering::Relaxed)
            || self.taken.load(Ordering::Relaxed)
            || self.taken.swap(true, Ordering::Acquire)
        {
            return None;
        }
        self.revoke();
        if self.held.load(Ordering::Acquire) {
            self.taken.store(false, Ordering::Release);
            return None;
        }
        Some(self.count(thread))
    }

    /// Revokes the bias: from here on the home takes the slow path too. The caller holds `taken`.
    #[inline]
    fn revoke(&self) {
        if self.at_home.load(Ordering::Relaxed) != 0 {
            self.at_home.store(0, Ordering::Relaxed);
            // SYNC POINT biased lock.
            heavy_barrier();
            let habit = self.habit.load(Ordering::Relaxed);
            self.habit
                .store(habit.saturating_mul(2).min(MOST), Ordering::Relaxed);
        }
    }

    /// Counts an acquisition by the slow path and makes a thread at home that comes again and
    /// again. The caller holds the lock.
    #[inline]
    fn count(&self, thread: u32) -> &AtomicBool {
        if self.last.load(Ordering::Relaxed) != thread {
            self.last.store(thread, Ordering::Relaxed);
            self.streak.store(1, Ordering::Relaxed);
            return &self.taken;
        }
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak < self.habit.load(Ordering::Relaxed) {
            return &self.taken;
        }
        self.bias_to(thread)
    }

    #[cold]
    fn bias_to(&self, thread: u32) -> &AtomicBool {
        self.streak.store(0, Ordering::Relaxed);
        let home = self.home.load(Ordering::Relaxed);
        // Several threads may share the last number.
        if (home != 0 && home != thread) || thread == u32::MAX || !has_heavy_barrier() {
            return &self.taken;
        }
        self.home.store(thread, Ordering::Relaxed);
        self.held.store(true, Ordering::Relaxed);
        self.at_home.store(thread, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        &self.held
    }
}
