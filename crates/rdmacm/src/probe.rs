//! Probes the hosts of peers. A killed process sends no message, and a peer that only waits for one
//! would wait forever; a kernel would disconnect for it. A probe shows whether the host still has a
//! RoCE port; if not, the peer was the last process there on the adapter. If it was not the last,
//! the process that receives the probe sends the peer's messages ([`crate::reaper`]), unless that
//! has been done already.

use crate::alarm::Alarm;
use crate::service::State;
use crate::state_machine::Due;
use std::collections::BTreeSet;
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::udp_port::UdpPort;
use verbena_hca_os::clock;

/// Interval between probes, in nanoseconds.
pub const PROBING: u64 = 2_000_000_000;

impl State {
    /// Probes the hosts of all connected peers for their RoCE ports.
    pub fn probe_peers(&mut self) {
        self.note_failures();
        let peers: BTreeSet<(u8, [u8; 16], [u8; 16], UdpPort)> = self
            .state_machines()
            .filter(|(_, of)| of.is_connected())
            .map(|(_, of)| {
                let path = of.path();
                (path.port, path.source, path.destination, of.residence())
            })
            .collect();
        if let Ok(process) = Process::current() {
            for (port, source, destination, residence) in peers {
                let interface = link::interface_number(port);
                // If it cannot be sent, the next probe follows.
                let (source, destination) = (source.into(), destination.into());
                let _ = process.probe_port(interface, source, destination, residence);
            }
        }
        self.connections.probes = !self.connections.owners.is_empty();
        if self.connections.probes {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Handles the delivery failures that the network has reported.
    pub(crate) fn note_failures(&mut self) {
        let Ok(process) = Process::current() else {
            return;
        };
        for (whom, why) in process.take_management_failures() {
            let pending_dreqs = self.connections.pending_dreqs.keys();
            let numbers: Vec<u32> = self
                .connections
                .owners
                .keys()
                .chain(pending_dreqs)
                .copied()
                .collect();
            for number in numbers {
                let noted = self.with(number, |machine| {
                    let concerned = machine.concerns(whom, why);
                    let due = concerned.then(|| machine.note_failure(why, clock::now()));
                    (due.unwrap_or(Due::Nothing), machine.deadline())
                });
                let Some((due, deadline)) = noted else {
                    continue;
                };
                self.schedule_retransmission(
                    number,
                    deadline.filter(|_| matches!(due, Due::Again(_))),
                );
                self.carry_out(number, due);
            }
        }
    }
}
