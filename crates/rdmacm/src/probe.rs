//! Probes the hosts of peers. A killed process sends no message, and a peer that only waits for one
//! would wait forever; a kernel would disconnect for it. A probe shows whether the host still has a
//! RoCE port; if not, the peer was the last process there on the adapter. If it was not the last,
//! the process that receives the probe sends the peer's messages ([`crate::reaper`]), unless that
//! has been done already.

use crate::alarm::Alarm;
use crate::exchange::PROBING;
use crate::state::State;
use std::collections::BTreeSet;
use verbena_hca::process::Process;
use verbena_hca_net::link;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_hca_os::clock;

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
}
