//! The adapter's own thread: it sleeps until a peer rings, connects, dies, or a deadline comes, and it makes progress
//! when no thread of the application does.
//!
//! While the application polls, the thread would only get in its way: it then looks in once a millisecond and asks
//! nobody to ring. When polling stops, or the application arms a completion queue for an event, it *arms*: peers ring
//! after they stored something. An idle process therefore takes no processor time.

use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::process::poller::{Poller, until};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often the thread looks in while the application polls.
const LURK_MS: i32 = 1;

/// Starts the thread. Signals are the application's: the thread takes none.
pub fn start(process: &Arc<Process>) -> Result<()> {
    let process = process.clone();
    let spawn = || {
        std::thread::Builder::new()
            .name("verbena".into())
            .stack_size(256 << 10)
            .spawn(move || {
                if let Err(error) = run(&process) {
                    eprintln!("verbena: the progress thread stopped: {error}");
                }
            })
            .map(drop)
            .map_err(Errno::from)
    };
    with_signals_blocked(spawn)
}

fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain data, filled before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

fn run(process: &Arc<Process>) -> Result<()> {
    let Some(member) = process.member.get() else {
        return Ok(());
    };
    let mut poller = Poller::new(process, member)?;
    let mut polls = 0;
    while !process.stopping.load(Ordering::Relaxed) {
        let mut worked = process.progress();
        process.bury_dead();
        let newcomers = process.take_newcomers();
        for peer in newcomers {
            poller.watch_peer(peer)?;
        }
        let polls_now = process.polls.load(Ordering::Relaxed);
        let is_polled = std::mem::replace(&mut polls, polls_now) != polls_now;
        let waits_for_event = process.armed_queues.load(Ordering::SeqCst) > 0;
        let timeout = if is_polled && !waits_for_event {
            LURK_MS
        } else {
            process.desk.set_armed(true);
            // What was stored before we armed rang nobody: look once more.
            worked |= process.progress_before_sleep();
            if worked {
                0
            } else {
                until(process.timers.next())
            }
        };
        poller.wait(process, member, timeout)?;
        process.desk.set_armed(false);
        // A queue that was armed between these two stores is seen here, or its own store comes later than ours.
        if process.armed_queues.load(Ordering::SeqCst) > 0 {
            process.desk.set_armed(true);
        }
    }
    Ok(())
}
