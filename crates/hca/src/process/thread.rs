//! The progress thread: it sleeps until a peer rings, connects or dies, or a deadline passes, and
//! it makes progress when no thread of the application does.
//!
//! While the application polls, the thread would only get in its way: it then checks now and then
//! whether that is still so (`idle_policy`), and asks for no doorbell rings. When
//! polling stops for long, or leaves requests, or the application arms a completion queue for an
//! event and does not poll on, the thread *arms*: peers ring after they have stored something. An
//! idle process therefore takes no processor time.

use crate::process::idle_policy::IdlePolicy;
use crate::process::poller::Poller;
use crate::process::{Member, Process};
use crate::roce::receive::Packets;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Result;
use verbena_hca_os::start;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;
use verbena_hca_shm::sleep;

/// Starts the thread. It begins when a value is sent through the sender, and ends at once if the
/// sender is dropped. Signals belong to the application: the thread takes none.
///
/// # Errors
/// The system's, when it has no threads or memory left.
pub fn start(process: &Arc<Process>, poller: Poller) -> Result<Sender<()>> {
    let process = process.clone();
    let (begin, begun) = std::sync::mpsc::channel();
    start::start(c"verbena", 256 << 10, move || {
        request_fast_wakeup();
        if let (Ok(()), Some(member)) = (begun.recv(), process.membership.get()) {
            run(&process, member, poller);
        }
    })?;
    Ok(begin)
}

/// Returns whether an event is wanted that is not left to the application's polling.
fn waits_for_event(process: &Process, policy: &IdlePolicy) -> bool {
    policy.serves_events(process.activity.armings(Ordering::SeqCst))
        && process.activity.has_armed_queue()
}

/// Runs the thread. No failure here ends it, or threads that wait for an event would wait for ever.
fn run(process: &Arc<Process>, member: &Member, mut poller: Poller) {
    // By this, peers that access this process's memory themselves see when it ends.
    process.memory.contexts().hold();
    poller.watch_port(process);
    poller.watch_capturer(process);
    let mut policy = IdlePolicy::new();
    while !process.activity.is_stopping() {
        process.activity.set_thread_works(true);
        process.remove_dead_peers();
        let is_polled = process.activity.take_polled();
        let armings = process.activity.armings(Ordering::SeqCst);
        policy.record_look(clock::now(), is_polled, armings, process.demand());
        let mut is_idle = policy.application_polls()
            && !waits_for_event(process, &policy)
            && !policy.serves_left_work();
        if is_idle && process.has_left_work() {
            is_idle = !policy.note_left_work();
            if is_idle {
                policy.note_left_work_served(process.take_left_work());
            }
        }
        let may_sleep = if is_idle {
            policy.note_packet_check(Packets::of(&**process).has_some());
            false
        } else {
            policy.note_wake_up(process.progress());
            sleep::before_sleep(process.memory.contexts().armed(), || {
                process.progress_before_sleep()
            })
        };
        process.activity.set_thread_works(false);
        poller.set_packet_wake_up(process, !is_idle);
        let timeout = match may_sleep {
            true => clock::milliseconds_until(process.timers.next_loud()),
            false => 0,
        };
        if is_idle {
            poller.sleep(policy.next_interval());
        }
        poller.wait(process, member, timeout);
        sleep::after_sleep(process.memory.contexts().armed(), || {
            waits_for_event(process, &policy)
        });
    }
    // Peers may access the context table until the process ends, so its hold must last.
    loop {
        std::thread::park();
    }
}
