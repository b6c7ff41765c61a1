//! The connection table of this process: local IDs, owning identifiers, messages and
//! retransmissions.

use crate::alarm::Alarm;
use crate::connection_state::ConnectionState;
use crate::death_record::DeathRecord;
use crate::event::{Event, Kind as EventKind};
use crate::inbound;
use crate::inbox::{Host, PrivatePorts, send};
use crate::message::{Kind, Message};
use crate::peer_transport::PeerTransport;
use crate::probe::PROBING;
use crate::service::{Service, State};
use crate::state_machine::{Due, StateMachine};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;
use std::thread;
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::management::{CmMad, SLOT_BITS};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};

/// Number of ended exchanges that are remembered.
const MOST_ENDED: usize = 4096;
/// Longest delay, in nanoseconds, of a retransmitted request that was answered already.
const MEMORY: u64 = 4_000_000_000;

/// The connection table of a process.
#[derive(Default)]
pub struct ConnectionTable {
    /// Owning identifiers, by local communication ID.
    pub(crate) owners: HashMap<u32, u32>,
    /// Pending DREQs: exchanges whose identifier was destroyed.
    pub(crate) pending_dreqs: HashMap<u32, StateMachine>,
    /// Ended exchanges: time until which a request may arrive again, peer, peer's ID.
    ended: VecDeque<(u64, Ipv6Addr, u32)>,
    /// Requests without a listener, and until when they are kept.
    pub(crate) unclaimed: Vec<(u64, CmMad)>,
    /// This process's death record.
    pub(crate) death_record: DeathRecord,
    /// Whether the alarm that probes the peers' hosts is set.
    pub(crate) probes: bool,
    /// Hosts that are being asked for private ports, and the exchanges that wait for the result.
    searches: HashMap<Host, Vec<u32>>,
    /// The last number assigned.
    count: u32,
}

impl ConnectionTable {
    /// Removes an exchange that is over.
    pub fn forget(&mut self, machine: &StateMachine) {
        self.owners.remove(&machine.number());
        self.death_record.clear(machine.number());
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        let (address, number) = (machine.address(), machine.remote_number());
        let until = clock::now() + MEMORY;
        self.ended.push_back((until, address, number));
    }

    /// Returns whether a request belongs to an exchange that is over.
    pub fn is_late(&mut self, cm_mad: &CmMad, number: u32) -> bool {
        let now = clock::now();
        while self.ended.front().is_some_and(|(until, ..)| *until <= now) {
            self.ended.pop_front();
        }
        let mut ended = self.ended.iter();
        ended.any(|(_, address, called)| (*address, *called) == (cm_mad.source, number))
    }
}

impl State {
    /// Assigns a communication ID to an exchange of identifier `owner`. It contains this process's
    /// slot, by which MADs reach this process.
    ///
    /// # Errors
    /// ENODEV without a port over which other hosts are reached.
    pub fn assign_local_id(&mut self, owner: u32) -> Result<u32> {
        let slot = Process::current()?.management_slot()?;
        let ConnectionTable { owners, count, .. } = &mut self.connections;
        if *count == 0 {
            // Random, so that late MADs to a process that had this slot earlier match no exchange.
            *count = crate::port::random_word();
        }
        loop {
            *count = count.wrapping_add(SLOT_BITS + 1);
            let number = *count & !SLOT_BITS | slot;
            if number != 0 && !owners.contains_key(&number) {
                owners.insert(number, owner);
                return Ok(number);
            }
        }
    }

    /// Attaches an exchange to an identifier.
    pub fn attach(&mut self, owner: u32, machine: StateMachine) {
        if let Some(identifier) = self.identifiers.get_mut(owner) {
            identifier.peer_transport = Some(PeerTransport::Remote(Box::new(machine)));
        }
        if !std::mem::replace(&mut self.connections.probes, true) {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Sends a message in an exchange.
    pub(crate) fn write(&mut self, owner: u32, message: &Message) -> Result<()> {
        let peer_transport = self
            .identifiers
            .get_mut(owner)
            .and_then(|of| of.peer_transport.as_mut());
        let machine = peer_transport
            .and_then(PeerTransport::state_machine)
            .ok_or(Errno::EINVAL)?;
        let cm_mad = machine.say(message, clock::now())?;
        let (number, deadline) = (machine.number(), machine.deadline());
        // Before the MAD leaves: a process killed in between has sent less than its record says,
        // never more.
        self.update_death_record(number);
        send(&cm_mad);
        self.schedule_retransmission(number, deadline);
        Ok(())
    }

    /// Records the message to be sent in an exchange if this process is killed now.
    pub(crate) fn update_death_record(&mut self, number: u32) {
        let cm_mad = self.connections.owners.get(&number).and_then(|owner| {
            let identifier = self.identifiers.get(*owner)?;
            match identifier.peer_transport.as_ref()? {
                PeerTransport::Remote(of)
                    if identifier.state.is_connected() && of.is_connected() =>
                {
                    of.disconnection()
                }
                PeerTransport::Remote(of) => of.cancellation(),
                PeerTransport::Local(_) => None,
            }
        });
        self.connections.death_record.set(number, cm_mad.as_ref());
    }

    pub(crate) fn schedule_retransmission(&mut self, number: u32, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.set_alarm(deadline, Alarm::Retransmission(number));
        }
    }

    /// Ends the exchange of a destroyed identifier that was in `state`, and informs its peer.
    pub fn end_connection(&mut self, state: ConnectionState, mut machine: StateMachine) {
        let number = machine.number();
        self.connections.forget(&machine);
        match state {
            ConnectionState::Established if machine.is_connected() => {
                if let Ok(cm_mad) = machine.say(&Message::bare(Kind::Dreq), clock::now()) {
                    send(&cm_mad);
                }
            }
            ConnectionState::Disconnecting => (),
            _ => {
                if let Some(cm_mad) = machine.cancel() {
                    send(&cm_mad);
                }
            }
        }
        if machine.is_waiting() {
            self.schedule_retransmission(number, machine.deadline());
            self.connections.pending_dreqs.insert(number, machine);
        }
    }

    /// Returns whether all DREQs of destroyed identifiers are answered.
    pub fn dreqs_are_answered(&self) -> bool {
        self.connections.pending_dreqs.is_empty()
    }

    /// Removes the death record: the process exits in the regular way.
    pub fn delete_death_record(&mut self) {
        self.connections.death_record.destroy();
    }

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
            if let Ok(service) = Service::current() {
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

    /// Runs `body` on the exchange with a local ID, if there is one.
    pub(crate) fn with<T>(
        &mut self,
        number: u32,
        body: impl FnOnce(&mut StateMachine) -> T,
    ) -> Option<T> {
        if let Some(pending_dreq) = self.connections.pending_dreqs.get_mut(&number) {
            return Some(body(pending_dreq));
        }
        let owner = *self.connections.owners.get(&number)?;
        let peer_transport = self.identifiers.get_mut(owner)?.peer_transport.as_mut()?;
        peer_transport.state_machine().map(body)
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
                    inbound::receive(self, owner, &answer);
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
    fn unanswered(&mut self, owner: u32, kind: Kind, why: Errno) {
        let Some(identifier) = self.identifiers.get_mut(owner) else {
            return;
        };
        if kind == Kind::Dreq {
            self.raise(owner, Event::plain(EventKind::Disconnected, -why.0));
            self.begin_time_wait(owner);
        } else {
            identifier.state = ConnectionState::Over;
            self.raise(owner, Event::plain(EventKind::Unreachable, -why.0));
        }
    }

    /// Returns the local ID of the exchange with a peer that uses `number`, if there is one
    /// already.
    pub fn find_by_remote_id(&self, cm_mad: &CmMad, number: u32) -> Option<u32> {
        self.state_machines()
            .find(|(_, of)| of.has_remote_id(cm_mad.source, number))
            .map(|(_, of)| of.number())
    }

    /// Returns the identifier that is connected to a queue pair.
    pub fn connected_with(&self, guid: u64, queue_pair: u32) -> Option<u32> {
        let connected = self.state_machines().find(|(owner, of)| {
            let identifier = self.identifiers.get(*owner);
            of.has_peer(guid, queue_pair) && identifier.is_some_and(|of| of.state.is_connected())
        });
        connected.map(|(owner, _)| owner)
    }

    pub(crate) fn state_machines(&self) -> impl Iterator<Item = (u32, &StateMachine)> {
        self.connections.owners.values().filter_map(|owner| {
            match self.identifiers.get(*owner)?.peer_transport.as_ref()? {
                PeerTransport::Remote(machine) => Some((*owner, &**machine)),
                PeerTransport::Local(_) => None,
            }
        })
    }
}
