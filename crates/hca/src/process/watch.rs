//! Following the ports, and the interfaces that they are: their states, addresses, MTUs
//! (ibv_get_async_event(3): "port events").
//!
//! A thread of its own does that, from when the device is opened or the process takes part in the host's adapter. Either may
//! be without the other: a program that only waits for events has no queue pair, and one that only listens for connections
//! has not opened the device.

use crate::context::Context;
use crate::device::Device;
use crate::event::AsyncEvent;
use crate::link::{self, Change, down};
use crate::process::{CURRENT, Process};
use crate::shm::registry;
use crate::sys::monitor::Monitor;
use crate::sys::start::start;
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

    /// Those that have opened the port's device are told, of the number that it has there.
    fn tell(&self, port: u8, change: Change) {
        let kind = match change {
            Change::Active => IBV_EVENT_PORT_ACTIVE,
            Change::Down => IBV_EVENT_PORT_ERR,
            Change::Gids => IBV_EVENT_GID_CHANGE,
        };
        let (device, number) = Device::of_port(port);
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = contexts.iter().filter_map(Weak::upgrade);
        for context in opened.filter(|context| context.device == device) {
            context.events.push(AsyncEvent {
                kind,
                element: number.into(),
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
        // If there is none left, the next to come tries again.
        if start(c"verbena-port", 128 << 10, move || follow(&process)).is_err() {
            self.watch.has_thread.store(false, Ordering::Relaxed);
        }
    }
}

/// Has this process learn which InfiniBand ports were taken down, whether it has an adapter or not.
pub fn look_at_ports() {
    match CURRENT.get() {
        Some(process) => process.look_at_ports(),
        None => drop(link::learn_down(down::now(&registry::directory()))),
    }
}

impl Process {
    /// Learns which InfiniBand ports were taken down: of the registry, if this process or another
    /// has made it.
    pub fn look_at_ports(&self) {
        let word = match self.member.get() {
            Some(member) => member.registry.ports_down().load(Ordering::SeqCst),
            None => down::now(&registry::directory()),
        };
        for (port, change) in link::learn_down(word) {
            for queue_pair in self.queue_pairs.all() {
                queue_pair.port_changed(port);
            }
            self.watch.tell(port, change);
        }
    }
}

fn follow(process: &Process) {
    let monitor = Monitor::start();
    while !process.stopping.load(Ordering::Relaxed) {
        // First of all, what has changed before there was a monitor.
        for (port, change) in link::follow() {
            process.watch.tell(port, change);
        }
        monitor.wait();
    }
}
