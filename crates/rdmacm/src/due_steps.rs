//! Steps that are due in exchanges with other hosts: retransmissions, the search for private UDP
//! ports, failures.

use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind};
use crate::inbox::PrivatePorts;
use crate::message::MessageKind;
use crate::outbox::send;
use crate::receive;
use crate::service::Service;
use crate::state::State;
use crate::state_machine::Due;
use std::thread;
use verbena_hca::process::Process;
use verbena_hca_net::link;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Errno;

impl State {
    /// Retransmits the message that is due in an exchange, or gives it up.
    pub fn retransmit_due(&mut self, number: u32, now: u64) {
        self.note_failures();
        let Some((due, deadline)) =
            self.with(number, |machine| (machine.due(now), machine.deadline()))
        else {
            return;
        };
        let is_retransmitted = matches!(due, Due::Again(_) | Due::SearchPorts(_));
        self.schedule_retransmission(number, deadline.filter(|_| is_retransmitted));
        self.carry_out(number, due);
    }

    /// Asks a host for its private ports, in its own thread because this one must not block.
    /// Later requests for the same host wait for the same result.
    fn search_private_ports(&mut self, number: u32) {
        let Some(path) = self.with(number, |machine| *machine.path()) else {
            return;
        };
        let host = (path.port, path.source, path.destination);
        let waiting = self.connections.searches.entry(host).or_default();
        waiting.push(number);
        if waiting.len() > 1 {
            return;
        }
        let search = move || {
            let interface = link::interface_number(path.port);
            let (source, destination) = (path.source.into(), path.destination.into());
            let found = Process::current()
                .and_then(|process| process.private_udp_ports(interface, source, destination));
            if let Some(service) = Service::existing() {
                let found = found.unwrap_or_default();
                service
                    .inbox
                    .put_private_ports(PrivatePorts { host, found });
            }
        };
        let searcher = thread::Builder::new().name("verbena-ports".into());
        if searcher.spawn(search).is_err() {
            let found = Vec::new();
            self.take_private_ports(&PrivatePorts { host, found });
        }
    }

    /// Processes the private ports that were found on a host.
    pub fn take_private_ports(&mut self, private_ports: &PrivatePorts) {
        for number in self
            .connections
            .searches
            .remove(&private_ports.host)
            .unwrap_or_default()
        {
            let now = clock::now();
            let tried = self.with(number, |machine| {
                let due = machine.try_private_ports(private_ports.found.clone(), now);
                (due, machine.deadline())
            });
            if let Some((due, deadline)) = tried {
                self.update_death_record(number);
                self.schedule_retransmission(number, deadline);
                self.carry_out(number, due);
            }
        }
    }

    pub(crate) fn carry_out(&mut self, number: u32, due: Due) {
        match due {
            Due::Nothing => (),
            Due::Again(cm_mad) => send(&cm_mad),
            Due::SearchPorts(again) => {
                if let Some(cm_mad) = again {
                    send(&cm_mad);
                }
                self.search_private_ports(number);
            }
            Due::Refused(answer) => {
                if let Some(owner) = self.connections.owners.get(&number).copied() {
                    receive::receive(self, owner, &answer);
                }
            }
            Due::Gone => {
                if let Some(owner) = self.connections.owners.get(&number).copied() {
                    self.lost(owner);
                }
            }
            Due::GivenUp(kind, why) => {
                self.connections.pending_dreqs.remove(&number);
                if let Some(owner) = self.connections.owners.get(&number).copied() {
                    self.unanswered(owner, kind, why);
                }
            }
        }
    }

    /// Raises the event for a message that stayed unanswered (events and status as in Linux'
    /// rdma_cm).
    fn unanswered(&mut self, owner: u32, kind: MessageKind, why: Errno) {
        let Some(identifier) = self.identifiers.get_mut(owner) else {
            return;
        };
        if kind == MessageKind::Dreq {
            self.raise(owner, Event::plain(EventKind::Disconnected, -why.0));
            self.begin_time_wait(owner);
        } else {
            identifier.state = ConnectionState::Over;
            self.raise(owner, Event::plain(EventKind::Unreachable, -why.0));
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
