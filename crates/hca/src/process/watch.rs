//! Follows the ports and their interfaces: states, addresses, MTUs (ibv_get_async_event(3): "port
//! events").
//!
//! A separate thread does that, from the time the device is opened or the process joins the host's
//! adapter. Either can happen without the other: a program that only waits for events has no queue
//! pair, and one that only listens for connections has not opened the device.

use crate::fabric::Fabric;
use crate::link::{self, PortChange};
use crate::port_switch;
use crate::process::{CURRENT, Process};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use verbena_hca_os::monitor::Monitor;
use verbena_hca_os::start::start;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;
use verbena_hca_shm::registry;

impl Process {
    /// Follows the interfaces, or the fabric, if there are any and no thread does so yet.
    pub(crate) fn follow_link(self: &Arc<Process>) {
        let fabric = link::fabric();
        if !(link::is_ethernet() || fabric.is_some()) || self.ports.watch().begin() {
            return;
        }
        let process = self.clone();
        let body = move || {
            request_fast_wakeup();
            match fabric {
                Some(fabric) => follow_fabric(&process, fabric),
                None => follow(&process),
            }
        };
        // If no thread can be started, the next caller tries again.
        if start(c"verbena-port", 256 << 10, body).is_err() {
            self.ports.watch().end();
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
        // The thread that follows the fabric takes its changes over as they come.
        if let Some(fabric) = link::fabric().filter(|_| !self.ports.watch().has_begun()) {
            self.look_at_fabric(fabric);
        }
        let word = match self.membership.get() {
            Some(member) => member.registry.ports_down().load(Ordering::SeqCst),
            None => port_switch::now(&registry::directory()),
        };
        for (port, change) in link::learn_down(word) {
            self.port_has_changed(port, change);
        }
    }

    /// Takes over the changes of the fabric. Returns whether there were any that concern paths, and
    /// whether a queue pair loses packets by them.
    fn look_at_fabric(&self, fabric: &Fabric) -> (bool, bool) {
        let changes = fabric.look();
        for (port, change) in link::learn_inactive(fabric.inactive()) {
            self.port_has_changed(port, change);
        }
        let lost = changes.any && self.look_at_paths();
        for datagram in fabric.take_datagrams() {
            if !crate::fabric::take_administration(&datagram) {
                self.take_management_datagram(&datagram);
            }
        }
        for (port, change) in changes.ports {
            // These were reported before, unless a rule keeps the port down.
            if !matches!(change, PortChange::Active | PortChange::Down) {
                self.ports.watch().notify(port, change);
            }
        }
        (changes.any, lost)
    }

    /// Looks at the paths and partitions of all queue pairs. Returns whether one loses packets.
    fn look_at_paths(&self) -> bool {
        let all = self.queue_pairs.all();
        let changed = all.iter().map(|queue_pair| queue_pair.fabric_changed());
        changed.fold(false, |lost, one| lost | one)
    }

    /// Tells the peers and the program that an InfiniBand port went down or up.
    pub(crate) fn port_has_changed(&self, port: u8, change: PortChange) {
        for queue_pair in self.queue_pairs.all() {
            queue_pair.port_changed(port);
        }
        self.ports.watch().notify(port, change);
    }

    /// Tells the peers that a link was cut or mended. The program does not learn of it.
    pub(crate) fn link_has_changed(&self) {
        for queue_pair in self.queue_pairs.all() {
            queue_pair.path_has_changed();
        }
    }

    /// Tells the peers and the program that the adapter has failed.
    pub(crate) fn adapter_has_failed(&self) {
        for queue_pair in self.queue_pairs.all() {
            queue_pair.path_has_changed();
        }
        self.ports.watch().raise_fatal();
        if let Some(call) = ON_FAILURE.get() {
            call();
        }
    }
}

/// Called when the adapter has failed.
static ON_FAILURE: OnceLock<fn()> = OnceLock::new();

/// Sets the function to be called when the adapter has failed, once.
pub fn on_failure(call: fn()) {
    ON_FAILURE.get_or_init(|| call);
}

/// Time in which the peers of a queue pair have normally learnt of a change, too.
const SPREAD: Duration = Duration::from_millis(500);
/// Pauses between checks of the paths: in that time, and later while a queue pair loses packets.
const PAUSE: Duration = Duration::from_millis(25);
const LATER: Duration = Duration::from_secs(1);
/// Time between two checks whether the process ends.
const CHECK: Duration = Duration::from_secs(3600);

fn follow_fabric(process: &Process, fabric: &Fabric) {
    let is_over = || process.activity.is_stopping() || fabric.has_ended();
    while !is_over() && fabric.wait(CHECK) {
        let (mut any, mut is_lost) = process.look_at_fabric(fabric);
        // A peer's partition key or path may have been checked before the peer knew its new one,
        // which may take long if it is stopped.
        let end = Instant::now() + SPREAD;
        while (any && Instant::now() < end || is_lost) && !is_over() {
            fabric.wait(if Instant::now() < end { PAUSE } else { LATER });
            any |= process.look_at_fabric(fabric).0;
            is_lost = process.look_at_paths();
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
