//! How the adapter's own thread waits while the application polls.
//!
//! Whoever polls serves and completes what peers of the host have for the process. The thread would do it at another's
//! expense then: where the two share a processor, what it waits for with a lock in its hand comes only when it has given
//! the processor back, and so has the application to wait for what the thread holds, for a whole time slice. So it leaves
//! that alone as long as it sees that somebody has polled since it last looked, and nobody needs to ring. Packets it
//! takes, but none wakes it, or each would cost a change of threads.
//!
//! But an application that polls its memory for what a peer writes looks at completion queues seldom: so the thread looks
//! again soon, as long as it finds something to do, and the seldomer the longer it does not.

use std::time::Duration;

/// How soon the thread looks again when it has found something.
const SHORTEST: Duration = Duration::from_micros(20);
/// How seldom it looks, in milliseconds.
const SELDOM_MS: i32 = 1;
const SELDOM: Duration = Duration::from_millis(SELDOM_MS as u64);

/// What the thread knows of the last looks.
pub(super) struct Lurker {
    /// Whether it has found something to do since it lurked.
    pub(super) found: bool,
    pause: Duration,
}

impl Lurker {
    /// Of the calling thread.
    pub(super) fn new() -> Lurker {
        be_punctual();
        Lurker {
            found: false,
            pause: SHORTEST,
        }
    }

    /// Sleeps. Returns for how many milliseconds descriptors are to be waited for besides.
    pub(super) fn lurk(&mut self) -> i32 {
        self.pause = match std::mem::take(&mut self.found) {
            true => SHORTEST,
            false => SELDOM.min(2 * self.pause),
        };
        if self.pause == SELDOM {
            return SELDOM_MS;
        }
        std::thread::sleep(self.pause);
        0
    }
}

/// The kernel adds 50 us to every sleep of a thread that does not ask for less (PR_SET_TIMERSLACK).
fn be_punctual() {
    const SLACK_NANOSECONDS: libc::c_ulong = 1000;
    // SAFETY: no pointers; it concerns the calling thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NANOSECONDS) };
}
