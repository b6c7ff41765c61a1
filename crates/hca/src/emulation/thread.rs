//! The thread that executes due requests of a program that does not poll. It sleeps while there
//! are none, and looks at intervals while there are: seldom while the program does the work itself,
//! because each look may preempt it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;
use verbena_hca_os::clock;
use verbena_hca_os::start::start;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;

/// Nanoseconds between two looks.
const INTERVAL: u64 = 50_000;
/// The same while the program does the work.
const SELDOM: u64 = 1_000_000;
/// Nanoseconds without requests after which the thread sleeps.
const IDLE: u64 = 10_000_000;

/// A process with emulated requests.
pub trait Emulated: Send + Sync + 'static {
    /// Returns the earliest deadline of such requests, u64::MAX for none.
    fn next_due(&self) -> u64;
    /// Returns whether a thread of the program waits for an event, and so does not poll.
    fn is_awaited(&self) -> bool;
    /// Executes the requests that are due.
    fn execute_due(&self);
    /// Returns its thread.
    fn follower(&self) -> &Follower;
}

/// The thread of a process, from the first deadline on.
#[derive(Default)]
pub struct Follower {
    begun: AtomicBool,
    /// Whether it could not be started.
    is_absent: AtomicBool,
    /// Whether it sleeps until it is woken.
    sleeps: AtomicBool,
    thread: OnceLock<Thread>,
    /// Whether the program has done due work since the last look.
    pub is_overtaken: AtomicBool,
}

impl Follower {
    /// Has the thread look at the deadlines, after one was set. Returns whether there is one.
    #[inline]
    pub fn follow(&self, process: &Arc<impl Emulated>) -> bool {
        if !self.begun.load(Ordering::Relaxed) {
            self.begin(process);
        }
        if self.sleeps.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        !self.is_absent.load(Ordering::Relaxed)
    }

    #[cold]
    fn begin(&self, process: &Arc<impl Emulated>) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let process = Arc::downgrade(process);
        let started = start(c"verbena-as", 256 << 10, move || run(&process));
        self.is_absent.store(started.is_err(), Ordering::Relaxed);
    }
}

fn run(process: &Weak<impl Emulated>) {
    if let Some(process) = process.upgrade() {
        let _ = process.follower().thread.set(std::thread::current());
    }
    request_fast_wakeup();
    let mut busy_at = clock::now();
    while let Some(process) = process.upgrade() {
        let now = clock::now();
        let next = process.next_due();
        if next != u64::MAX {
            busy_at = now;
        }
        let follower = process.follower();
        let is_awaited = process.is_awaited();
        if !is_awaited && follower.is_overtaken.swap(false, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_nanos(SELDOM));
        } else if next <= now {
            process.execute_due();
            follower.is_overtaken.store(false, Ordering::Relaxed);
        } else if is_awaited && next < now + INTERVAL {
            std::hint::spin_loop();
        } else if now - busy_at < IDLE {
            std::thread::sleep(Duration::from_nanos(INTERVAL));
        } else {
            let sleeps = &follower.sleeps;
            sleeps.store(true, Ordering::SeqCst);
            if process.next_due() == u64::MAX {
                std::thread::park();
            }
            sleeps.store(false, Ordering::SeqCst);
        }
    }
}
