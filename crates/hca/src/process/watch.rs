//! Following the interfaces that the ports are: their states, addresses, MTUs (ibv_get_async_event(3): "port events").
//!
//! A thread of its own does that, from when the device is opened or the process takes part in the host's adapter. Either may
//! be without the other: a program that only waits for events has no queue pair, and one that only listens for connections
//! has not opened the device.

use crate::context::Context;
use crate::event::AsyncEvent;
use crate::link::{self, Change};
use crate::process::Process;
use crate::process::thread::with_signals_blocked;
use crate::sys::monitor::Monitor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use verbena_abi::*;

/// Who is told.
#[derive(Default)]
pub(crate) struct Watch {
    contexts: Mutex<Vec<Weak<Context>>>,
    has_thread: AtomicBool,
}

impl Watch {
    /// From now on an opened device is told, until it is closed.
    pub(crate) fn add(&self, context: &Arc<Context>) {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.retain(|one| one.strong_count() > 0);
        contexts.push(Arc::downgrade(context));
    }

    fn tell(&self, port: u8, kind: ibv_event_type) {
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        for context in contexts.iter().filter_map(Weak::upgrade) {
            context.events.push(AsyncEvent {
                kind,
                element: port.into(),
            });
        }
    }
}

impl Process {
    /// Follows the interfaces, if there are any and that is not done yet.
    pub(crate) fn follow_link(self: &Arc<Process>) {
        if !link::is_ethernet() || self.watch.has_thread.swap(true, Ordering::Relaxed) {
            return;
        }
        let process = self.clone();
        let thread = || {
            std::thread::Builder::new()
                .name("verbena-port".into())
                .stack_size(128 << 10)
                .spawn(move || follow(&process))
        };
        // If there is none left, the next to come tries again.
        if with_signals_blocked(thread).is_err() {
            self.watch.has_thread.store(false, Ordering::Relaxed);
        }
    }
}

fn follow(process: &Process) {
    let monitor = Monitor::start();
    while !process.stopping.load(Ordering::Relaxed) {
        // First of all, what has changed before there was a monitor.
        for (port, change) in link::follow() {
            let kind = match change {
                Change::Active => IBV_EVENT_PORT_ACTIVE,
                Change::Down => IBV_EVENT_PORT_ERR,
                Change::Gids => IBV_EVENT_GID_CHANGE,
            };
            process.watch.tell(port, kind);
        }
        monitor.wait();
    }
}
