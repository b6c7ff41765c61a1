//! Follows the ports and their interfaces: states, addresses, MTUs (ibv_get_async_event(3): "port
//! events").
//!
//! A separate thread does that, from the time the device is opened or the process joins the host's
//! adapter. Either can happen without the other: a program that only waits for events has no queue
//! pair, and one that only listens for connections has not opened the device.

use crate::device::Device;
use crate::event::{AsyncEvent, EventQueue};
use crate::link::{self, PortChange};
use crate::port_switch;
use crate::process::{CURRENT, Process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use verbena_abi::*;
use verbena_hca_os::monitor::Monitor;
use verbena_hca_os::start::start;
use verbena_hca_shm::registry;

/// The opened devices that receive port events.
#[derive(Default)]
pub(crate) struct Watch {
    opened: Mutex<Vec<(Device, Weak<EventQueue<AsyncEvent>>)>>,
    has_thread: AtomicBool,
}

impl Watch {
    /// Adds an opened device, which receives events until it is closed.
    pub(crate) fn add(&self, device: Device, events: &Arc<EventQueue<AsyncEvent>>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|(_, events)| events.strong_count() > 0);
        opened.push((device, Arc::downgrade(events)));
    }

    /// Sends an event to the contexts of the port's device, with the port's number there.
    fn notify(&self, port: u8, change: PortChange) {
        let kind = match change {
            PortChange::Active => IBV_EVENT_PORT_ACTIVE,
            PortChange::Down => IBV_EVENT_PORT_ERR,
            PortChange::Gids => IBV_EVENT_GID_CHANGE,
        };
        let (device, number) = Device::of_port(port);
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let of_device = opened.iter().filter(|(opened, _)| *opened == device);
        for events in of_device.filter_map(|(_, events)| events.upgrade()) {
            events.push(AsyncEvent {
                kind,
                element: number.into(),
            });
        }
    }
}

impl Process {
    /// Follows the interfaces, if there are any and no thread does so yet.
    pub(crate) fn follow_link(self: &Arc<Process>) {
        if !link::is_ethernet() || self.ports.watch().has_thread.swap(true, Ordering::Relaxed) {
            return;
        }
        let process = self.clone();
        // If no thread can be started, the next caller tries again.
        if start(c"verbena-port", 128 << 10, move || follow(&process)).is_err() {
            self.ports
                .watch()
                .has_thread
                .store(false, Ordering::Relaxed);
        }
    }
}

/// Reads which InfiniBand ports were taken down, whether this process has an adapter or not.
pub fn look_at_ports() {
    match CURRENT.get() {
        Some(process) => process.look_at_ports(),
        None => drop(link::learn_down(port_switch::now(&registry::directory()))),
    }
}

impl Process {
    /// Reads which InfiniBand ports were taken down from the registry, if this or another process
    /// has made it.
    pub fn look_at_ports(&self) {
        let word = match self.membership.get() {
            Some(member) => member.registry.ports_down().load(Ordering::SeqCst),
            None => port_switch::now(&registry::directory()),
        };
        for (port, change) in link::learn_down(word) {
            for queue_pair in self.queue_pairs.all() {
                queue_pair.port_changed(port);
            }
            self.ports.watch().notify(port, change);
        }
    }
}

fn follow(process: &Process) {
    let monitor = Monitor::start();
    while !process.activity.is_stopping() {
        // First the changes from before the monitor started.
        for (port, change) in link::follow() {
            process.ports.watch().notify(port, change);
        }
        monitor.wait();
    }
}
