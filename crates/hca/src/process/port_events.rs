//! Events of ports for the opened devices.

use crate::device::Device;
use crate::event::{AsyncEvent, EventQueue};
use crate::link::PortChange;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use verbena_abi::*;

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
    pub(super) fn notify(&self, port: u8, change: PortChange) {
        let kind = match change {
            PortChange::Active => IBV_EVENT_PORT_ACTIVE,
            PortChange::Down => IBV_EVENT_PORT_ERR,
            PortChange::Gids => IBV_EVENT_GID_CHANGE,
            PortChange::Lid => IBV_EVENT_LID_CHANGE,
            PortChange::PKeys => IBV_EVENT_PKEY_CHANGE,
            PortChange::Manager => IBV_EVENT_SM_CHANGE,
            PortChange::Reregister => IBV_EVENT_CLIENT_REREGISTER,
        };
        let (device, number) = Device::of_port(port);
        self.raise(device, number, kind);
    }

    /// Sends an event of a device's port to the device's contexts.
    pub(crate) fn raise(&self, device: Device, number: u8, kind: ibv_event_type) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let of_device = opened.iter().filter(|(opened, _)| *opened == device);
        for events in of_device.filter_map(|(_, events)| events.upgrade()) {
            events.push(AsyncEvent {
                kind,
                element: number.into(),
            });
        }
    }

    /// Sends IBV_EVENT_DEVICE_FATAL to all contexts.
    pub(crate) fn raise_fatal(&self) {
        for device in Device::all() {
            self.raise(device, 0, IBV_EVENT_DEVICE_FATAL);
        }
    }

    /// Notes that a thread follows the interfaces. Returns whether one did already.
    pub(super) fn begin(&self) -> bool {
        self.has_thread.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a thread follows the interfaces.
    pub(super) fn has_begun(&self) -> bool {
        self.has_thread.load(Ordering::Relaxed)
    }

    /// Notes that no thread follows the interfaces.
    pub(super) fn end(&self) {
        self.has_thread.store(false, Ordering::Relaxed);
    }
}
