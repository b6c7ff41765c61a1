//! Who has a lock. A thread that takes one again and again becomes its *home*, and takes it from then on without a
//! locked instruction.
//!
//! The law:
//! - A lock has one home at most, for ever: the first thread that took it [`HABIT`] times in a row. `is_at_home` says
//!   whether the home may take it the short way now, which is: say so in `held`, then look at `is_at_home` again.
//! - Everybody else, and the home when it is not at home, takes the long way: `taken` by an exchange; then, if the home is
//!   at home, it is shown out; then `held` is waited for. Only who has `taken` writes anything but `held`, and only the
//!   home writes `held`.
//! - SYNC POINT claim: to show the home out is to clear `is_at_home`, then a barrier that makes every thread of the
//!   process pass a full fence ([`heavy_barrier`]), then to look at `held`. The home stores `held`, passes a barrier of the
//!   compiler's ([`light_barrier`]), and looks at `is_at_home`. Either the fence falls between these two, or before, or
//!   behind: so the home sees that it was shown out, or who showed it out sees that it holds the lock.
//! - A home that finds itself shown out clears `held` again, and others may find it set for that moment. That is why they
//!   wait for it, and why a lock has one home for ever: another home's word would be cleared with it.
//! - What one holder did the next one sees: both words are cleared with Release and looked at with Acquire, and what a
//!   thread did itself it sees anyway.
//!
//! Showing out costs a system call. So who was shown out has to take the lock twice as often in a row as the last time to
//! be at home again. `hca-loom` compiles this very file.

use crate::sync::{
    AtomicBool, AtomicU32, Ordering, can_bar, heavy_barrier, light_barrier, model_barrier,
    wait_a_little,
};

/// How often in a row a thread takes a lock before it is at home there.
pub const HABIT: u32 = 16;
/// The most that is asked of one who was shown out.
const MOST: u32 = 1 << 20;

/// The words of a lock. Threads are named by numbers that are not zero.
#[derive(Debug)]
pub struct Claim {
    /// The home, while it is at home.
    at_home: AtomicU32,
    held: AtomicBool,
    taken: AtomicBool,
    /// Under `taken`, as what follows: the home, or 0.
    home: AtomicU32,
    /// Who took the long way last, and how often in a row.
    last: AtomicU32,
    streak: AtomicU32,
    /// How long that streak must be.
    habit: AtomicU32,
}

impl Claim {
    /// A lock that becomes a thread's home when it was taken `habit` times in a row.
    #[inline]
    pub fn new(habit: u32) -> Claim {
        Claim {
            at_home: AtomicU32::new(0),
            held: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            home: AtomicU32::new(0),
            last: AtomicU32::new(0),
            streak: AtomicU32::new(0),
            habit: AtomicU32::new(habit),
        }
    }

    /// Waits for the lock. To give it back is to clear what is returned, with Release.
    #[inline]
    pub fn take(&self, thread: u32) -> &AtomicBool {
        if self.take_at_home(thread) {
            return &self.held;
        }
        self.take_the_long_way(thread)
    }

    /// The lock, unless somebody has it.
    #[inline]
    pub fn try_take(&self, thread: u32) -> Option<&AtomicBool> {
        if self.take_at_home(thread) {
            return Some(&self.held);
        }
        self.try_the_long_way(thread)
    }

    #[inline]
    fn take_at_home(&self, thread: u32) -> bool {
        // Held by the home itself: taken in a signal handler, say. That never ends well, but it ends in waiting.
        if self.at_home.load(Ordering::Relaxed) != thread || self.held.load(Ordering::Relaxed) {
            return false;
        }
        model_barrier();
        self.held.store(true, Ordering::Relaxed);
        // SYNC POINT claim.
        light_barrier();
        if self.at_home.load(Ordering::Relaxed) == thread {
            return true;
        }
        self.held.store(false, Ordering::Release);
        false
    }

    fn take_the_long_way(&self, thread: u32) -> &AtomicBool {
        let mut looks = 0;
        while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            wait_a_little(&mut looks);
        }
        self.show_out();
        while self.held.load(Ordering::Acquire) {
            wait_a_little(&mut looks);
        }
        self.count(thread)
    }

    fn try_the_long_way(&self, thread: u32) -> Option<&AtomicBool> {
        // A look first: an exchange would take the line from the holder for nothing, and showing out costs more.
        if self.held.load(Ordering::Relaxed)
            || self.taken.load(Ordering::Relaxed)
            || self.taken.swap(true, Ordering::Acquire)
        {
            return None;
        }
        self.show_out();
        if self.held.load(Ordering::Acquire) {
            self.taken.store(false, Ordering::Release);
            return None;
        }
        Some(self.count(thread))
    }

    /// Under `taken`: from here on the home comes the long way too.
    #[inline]
    fn show_out(&self) {
        if self.at_home.load(Ordering::Relaxed) != 0 {
            self.at_home.store(0, Ordering::Relaxed);
            // SYNC POINT claim.
            heavy_barrier();
            let habit = self.habit.load(Ordering::Relaxed);
            self.habit
                .store(habit.saturating_mul(2).min(MOST), Ordering::Relaxed);
        }
    }

    /// With the lock, which was taken the long way: counts, and makes the thread at home that always comes.
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
        self.move_in(thread)
    }

    #[cold]
    fn move_in(&self, thread: u32) -> &AtomicBool {
        self.streak.store(0, Ordering::Relaxed);
        let home = self.home.load(Ordering::Relaxed);
        // The last number may be many threads'.
        if (home != 0 && home != thread) || thread == u32::MAX || !can_bar() {
            return &self.taken;
        }
        self.home.store(thread, Ordering::Relaxed);
        self.held.store(true, Ordering::Relaxed);
        self.at_home.store(thread, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        &self.held
    }
}
