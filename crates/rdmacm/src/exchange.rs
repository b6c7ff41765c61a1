//! Exchanges with other hosts: their local IDs, messages and ends.

use crate::alarm::Alarm;
use crate::connection_state::ConnectionState;
use crate::connection_table::ConnectionTable;
use crate::message::{Message, MessageKind};
use crate::outbox::send;
use crate::peer_transport::PeerTransport;
use crate::state::State;
use crate::state_machine::StateMachine;
use verbena_hca::process::Process;
use verbena_hca_net::roce::management::{CmMad, SLOT_BITS};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};

/// Interval between probes, in nanoseconds.
pub const PROBING: u64 = 2_000_000_000;

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
        let cm_mad = machine.send(message, clock::now())?;
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
                if let Ok(cm_mad) = machine.send(&Message::bare(MessageKind::Dreq), clock::now()) {
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
