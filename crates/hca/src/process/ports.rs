//! The ports of the device in this process: the way to other hosts, events, and packet capture.

use crate::capture::Capture;
use crate::link;
use crate::process::port_events::Watch;
use crate::roce::port::Port;
use std::sync::{Arc, OnceLock};

/// The ports.
#[derive(Default)]
pub(crate) struct Ports {
    /// The RoCE port (UDP port 4791).
    roce: OnceLock<Port>,
    /// Notifies the application of changes to the port.
    watch: Watch,
    /// Copies this process's packets to a capturer.
    capture: Arc<Capture>,
}

impl Ports {
    /// With RoCE, opens the port through which other hosts are reached. Without it, peers on this
    /// host can still be reached.
    pub(super) fn open(&self) {
        if link::is_ethernet()
            && self.roce.get().is_none()
            && let Ok(port) = Port::open()
        {
            let _ = self.roce.set(port);
        }
    }

    /// Returns the RoCE port, if it is open.
    #[inline]
    pub(crate) fn roce(&self) -> Option<&Port> {
        self.roce.get()
    }

    /// Returns the opened devices that receive port events.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the capture of this process's packets.
    pub(super) fn capture(&self) -> &Arc<Capture> {
        &self.capture
    }
}
