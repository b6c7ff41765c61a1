//! How the adapter's own thread waits for packets.
//!
//! No peer asks whether we want to be rung: a packet wakes whoever waits on the socket. While the application polls, the
//! thread does not wait on it, or each packet would cost a change of threads. But an application that polls its memory
//! for what a peer writes looks at completion queues seldom: so the thread looks in often, as long as it finds something
//! to do, and the seldomer the longer it does not.

use crate::process::Process;
use crate::process::poller::Poller;
use crate::process::thread::LURK_MS;
use std::time::Duration;

/// How soon the thread looks in again when it has found something.
const SHORTEST: Duration = Duration::from_micros(20);
/// How seldom it looks in.
const LONGEST: Duration = Duration::from_millis(LURK_MS as u64);

/// What the thread knows of the last looks.
pub(super) struct Lurker {
    /// Whether it has found something to do since it slept.
    pub(super) found: bool,
    pause: Duration,
}

impl Lurker {
    /// Of the calling thread.
    pub(super) fn new(process: &Process) -> Lurker {
        if process.roce.get().is_some() {
            be_punctual();
        }
        Lurker {
            found: false,
            pause: SHORTEST,
        }
    }

    /// Sees to it that packets wake the thread, or not, and sleeps for them in the latter case. Returns how long is still
    /// to be waited.
    pub(super) fn lurk_for_packets(
        &mut self,
        process: &Process,
        poller: &mut Poller,
        timeout: i32,
    ) -> i32 {
        let lurks = timeout == LURK_MS;
        poller.heed_port(process, !lurks);
        if !lurks {
            return timeout;
        }
        self.pause = match std::mem::take(&mut self.found) {
            true => SHORTEST,
            false => LONGEST.min(2 * self.pause),
        };
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
