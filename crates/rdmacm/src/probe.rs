//! Peers' hosts are probed. A process that is killed tells nobody, and one that only waits for it would wait for ever; a
//! kernel would disconnect for it. What can be seen from here is that its host has no RoCE port any more, that is, that it
//! was the last process there on the adapter. If it was not, whoever takes the question speaks for it
//! ([`crate::executor`]), if nobody has done so yet.

use crate::alarm::Alarm;
use crate::correspondence::Due;
use crate::service::State;
use std::collections::BTreeSet;
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::residence::Residence;
use verbena_hca::sys::clock;

/// How often, in nanoseconds.
pub const PROBING: u64 = 2_000_000_000;

impl State {
    /// Asks the hosts of those that we are connected with whether they still have a RoCE port.
    pub fn probe_peers(&mut self) {
        self.note_failures();
        let peers: BTreeSet<(u8, [u8; 16], [u8; 16], Residence)> = self
            .correspondences()
            .filter(|(_, of)| of.is_connected())
            .map(|(_, of)| {
                let way = of.way();
                (way.port, way.source, way.destination, of.residence())
            })
            .collect();
        if let Ok(process) = Process::current() {
            for (port, source, destination, residence) in peers {
                let interface = link::interface_number(port);
                // What cannot leave is asked for the next time.
                let (source, destination) = (source.into(), destination.into());
                let _ = process.probe_port(interface, source, destination, residence);
            }
        }
        self.office.probes = !self.office.owners.is_empty();
        if self.office.probes {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// What the network says of what has not arrived.
    pub(crate) fn note_failures(&mut self) {
        let Ok(process) = Process::current() else {
            return;
        };
        for (whom, why) in process.take_management_failures() {
            let farewells = self.office.farewells.keys();
            let numbers: Vec<u32> = self
                .office
                .owners
                .keys()
                .chain(farewells)
                .copied()
                .collect();
            for number in numbers {
                let noted = self.with(number, |correspondence| {
                    let concerned = correspondence.concerns(whom, why);
                    let due = concerned.then(|| correspondence.note_failure(why, clock::now()));
                    (due.unwrap_or(Due::Nothing), correspondence.deadline())
                });
                let Some((due, deadline)) = noted else {
                    continue;
                };
                self.remind(number, deadline.filter(|_| matches!(due, Due::Again(_))));
                self.carry_out(number, due);
            }
        }
    }
}
