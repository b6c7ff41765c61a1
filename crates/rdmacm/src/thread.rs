//! The thread that listens to peers: one per process, started with its first channel.

use crate::inbound;
use crate::service::Service;
use crate::watch::Source;
use rustix::event::epoll;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Pause when connections cannot be accepted.
const RESPITE: Duration = Duration::from_millis(10);

/// Handles the input on the descriptors of a [`crate::watch::Watch`]; never returns.
pub fn run(epoll: &OwnedFd) {
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => (),
            // The program has closed this crate's descriptor, or there is no memory: avoid a busy
            // loop.
            Err(_) => thread::sleep(RESPITE),
        }
        let Some(service) = Service::existing() else {
            continue;
        };
        for event in &events {
            let handled = inbound::handle(service, Source::decode(event.data.u64()));
            if handled.is_err() {
                // Out of descriptors: the listener stays readable, so avoid a busy loop.
                thread::sleep(RESPITE);
            }
        }
    }
}
