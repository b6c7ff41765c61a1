//! Messages that are late by a rule ([`super::link`]): a separate thread sends them when they are
//! due. It exists only if there are some.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use verbena_hca_os::clock;
use verbena_hca_os::start::start;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;

/// Most messages that wait.
const MOST: usize = 1 << 14;

type Send = Box<dyn FnOnce() + std::marker::Send>;

struct Line {
    /// By the time and the order of posting.
    waiting: BTreeMap<(u64, u64), Send>,
    posted: u64,
    /// The process with the thread; a child of fork(2) has none.
    process: u32,
}

static LINE: Mutex<Line> = Mutex::new(Line {
    waiting: BTreeMap::new(),
    posted: 0,
    process: 0,
});
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Line> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `send` at a time, and before the process exits. Returns whether it will: not if too many
/// wait already, or there can be no thread. Then `send` is dropped.
#[must_use]
pub fn send_at(time: u64, send: impl FnOnce() + std::marker::Send + 'static) -> bool {
    let mut line = lock();
    if line.process != std::process::id() {
        // Those of the parent are sent by it.
        std::mem::take(&mut line.waiting)
            .into_values()
            .for_each(std::mem::forget);
        if start(c"verbena-link", 128 << 10, run).is_err() {
            return false;
        }
        line.process = std::process::id();
    }
    if line.waiting.len() >= MOST {
        return false;
    }
    line.posted += 1;
    let place = (time, line.posted);
    line.waiting.insert(place, Box::new(send));
    CHANGED.notify_one();
    true
}

/// Sends all messages that wait, because the process exits.
pub fn send_all() {
    let mut line = lock();
    if line.process == std::process::id() {
        let waiting = std::mem::take(&mut line.waiting);
        drop(line);
        waiting.into_values().for_each(|send| send());
    }
}

fn run() {
    request_fast_wakeup();
    let mut line = lock();
    loop {
        let now = clock::now();
        match line.waiting.first_entry() {
            None => line = CHANGED.wait(line).unwrap_or_else(PoisonError::into_inner),
            Some(first) if first.key().0 <= now => {
                let send = first.remove();
                drop(line);
                send();
                line = lock();
            }
            Some(first) => {
                let wait = Duration::from_nanos(first.key().0 - now);
                let waited = CHANGED.wait_timeout(line, wait);
                line = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
