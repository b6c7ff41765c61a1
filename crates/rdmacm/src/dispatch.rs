//! Management datagrams (MADs) between this host and others, and their assignment to exchanges.
//!
//! Queue pair 1 belongs to the host and not to a process (`verbena_hca_net::roce::management`). A
//! MAD of an existing exchange reaches its process directly, by the slot in the communication ID. A
//! first MAD (a request) reaches any process, which passes it to the listener of the requested port
//! over the socket that local processes connect to ([`crate::port`]): so a dead listener is no
//! listener, and a stopped one blocks no other process. If there is no listener, the process that
//! received the MAD answers.
//!
//! Over RoCE, a process that never uses the connection manager gets one with the first MAD it
//! receives.

use crate::alarm::Alarm;
use crate::local_stream::LocalStream;
use crate::mad;
use crate::message::{Message, MessageKind};
use crate::no_listener::{answer_unknown_exchange, decline};
use crate::outbox::send;
use crate::path::mapped;
use crate::peer_transport::PeerTransport;
use crate::receive;
use crate::state::State;
use crate::state_machine::ReceiveOutcome;
use verbena_hca::process::Process;
use verbena_hca_net::roce::management::{CmMad, SLOT_BITS};
use verbena_hca_os::clock;
use verbena_hca_os::errno::Errno;
use verbena_wire::mad::cm;

/// Number of requests that may wait for a listener.
const MOST_UNCLAIMED: usize = 256;

/// How long they wait, in nanoseconds, at least; longer where a process listened a moment ago
/// ([`crate::closed_port`]). A kernel would refuse at once; but on a busy machine a program that
/// starts to listen just in time for a connection is slower than there.
const PATIENCE: u64 = 1_000_000_000;

/// Interval at which they are offered again, in nanoseconds.
const ROUND: u64 = 10_000_000;

impl State {
    /// Processes a received MAD.
    pub fn process_cm_mad(&mut self, cm_mad: CmMad) {
        let Some((transaction, message)) = mad::read(&cm_mad.mad) else {
            return;
        };
        let ours = match &message {
            cm::Message::Req(_) | cm::Message::SidrReq(_) => {
                self.offer(cm_mad, clock::now() + PATIENCE);
                return;
            }
            cm::Message::Mra(mra) => mra.remote_comm_id,
            cm::Message::Rej(rej) => rej.remote_comm_id,
            cm::Message::Rep(rep) => rep.remote_comm_id,
            cm::Message::Rtu(rtu) => rtu.remote_comm_id,
            cm::Message::Dreq(dreq) => dreq.remote_comm_id,
            cm::Message::Drep(drep) => drep.remote_comm_id,
            cm::Message::SidrRep(rep) => rep.request_id,
        };
        if !self.receive(ours, &cm_mad, transaction, &message) && is_of_this_process(ours) {
            answer_unknown_exchange(&cm_mad, transaction, &message);
        }
    }

    /// Passes a MAD to the exchange with a local ID. Returns false if there is none.
    fn receive(
        &mut self,
        number: u32,
        cm_mad: &CmMad,
        transaction: u64,
        message: &cm::Message<'_>,
    ) -> bool {
        let now = clock::now();
        let owner = self.connections.owners.get(&number).copied();
        let peer_transport = owner
            .and_then(|owner| self.identifiers.get_mut(owner))
            .and_then(|identifier| identifier.peer_transport.as_mut());
        let (outcome, deadline, path) = match peer_transport.and_then(PeerTransport::state_machine)
        {
            Some(machine) => {
                let outcome = machine.receive(cm_mad.source, transaction, message, now);
                (outcome, machine.deadline(), *machine.path())
            }
            None => {
                return self.receive_for_pending_dreq(number, cm_mad, transaction, message, now);
            }
        };
        self.schedule_retransmission(number, deadline);
        match (outcome, owner) {
            (ReceiveOutcome::Message(told), Some(owner)) => receive::receive(self, owner, &told),
            (ReceiveOutcome::Elsewhere(due), Some(_)) => self.carry_out(number, *due),
            (ReceiveOutcome::Again(again), Some(owner)) => {
                send(&again);
                if let Some(identifier) = self.identifiers.get_mut(owner) {
                    // A REJ may have reduced the MTU.
                    identifier.path = path;
                }
            }
            _ => (),
        }
        self.update_death_record(number);
        true
    }

    fn receive_for_pending_dreq(
        &mut self,
        number: u32,
        cm_mad: &CmMad,
        transaction: u64,
        message: &cm::Message<'_>,
        now: u64,
    ) -> bool {
        let Some(pending_dreq) = self.connections.pending_dreqs.get_mut(&number) else {
            return false;
        };
        let outcome = pending_dreq.receive(cm_mad.source, transaction, message, now);
        if let ReceiveOutcome::Message(told) = &outcome {
            if told.kind == MessageKind::Dreq
                && let Ok(answer) = pending_dreq.send(&Message::bare(MessageKind::Drep), now)
            {
                send(&answer);
            }
            self.connections.pending_dreqs.remove(&number);
        }
        true
    }

    /// Passes a request to its listener.
    fn offer(&mut self, cm_mad: CmMad, deadline: u64) {
        let Some((transaction, message)) = mad::read(&cm_mad.mad) else {
            return;
        };
        let request = mad::request(transaction, &message);
        let Some(request) = request.filter(|of| mapped(of.destination.ip()) == cm_mad.destination)
        else {
            return decline(&cm_mad);
        };
        let request = request.on_link(cm_mad.interface);
        // Before the attempt: a process that begins to listen between the two is found by it.
        let waits = clock::now() < deadline
            || self
                .ports
                .recent_listener(self.ports.host(), request.space, request.destination.port())
                .is_some();
        match self
            .ports
            .connect(self.ports.host(), request.space, request.destination)
        {
            Ok(stream) => {
                if let Ok(mut peer_transport) = LocalStream::new(stream) {
                    // A listener that does not take it has just exited; the request is
                    // retransmitted.
                    let _ = peer_transport.forward(&cm_mad);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) if waits => {
                let unclaimed = &mut self.connections.unclaimed;
                let waiting = unclaimed.len();
                if waiting < MOST_UNCLAIMED {
                    unclaimed.push((deadline, cm_mad));
                }
                // One alarm for all of them: each offers all.
                if waiting == 0 {
                    self.set_alarm(clock::now() + ROUND, Alarm::Unclaimed);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) => decline(&cm_mad),
            // The listener is overloaded, or no descriptors are left: the request is retransmitted.
            Err(_) => (),
        }
    }

    /// Offers the requests without a listener again.
    pub fn offer_unclaimed(&mut self) {
        for (deadline, cm_mad) in std::mem::take(&mut self.connections.unclaimed) {
            self.offer(cm_mad, deadline);
        }
    }

    /// Processes a retransmitted request for which an exchange exists.
    pub fn receive_again(&mut self, number: u32, cm_mad: &CmMad) {
        if let Some((transaction, message)) = mad::read(&cm_mad.mad) {
            self.receive(number, cm_mad, transaction, &message);
        }
    }
}

/// Returns whether this process has assigned a communication ID, or could have. The kernel may
/// deliver datagrams of one sender that arrive close together to one socket, whichever process each
/// is for; those of another process are lost then, and retransmitted.
fn is_of_this_process(number: u32) -> bool {
    let process = Process::current();
    process.is_ok_and(|process| process.has_management_slot(number & SLOT_BITS))
}
