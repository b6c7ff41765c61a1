//! The responder of a reliable queue pair.
//!
//! **Inbound** packets are validated in the order of the specification's figure "Responder Inbound
//! Request Packet Validation" (9.7.4.1): PSN, opcode sequence, opcode, length, receive, key; then
//! executed. A refused packet has no effect. Packets behind a missing one wait for it (`early`).
//!
//! **Outbound** packets are ordered by PSN: responses to reads and atomics, from their responder
//! resources, then at most one acknowledgement, which covers everything before it. So
//! acknowledgements coalesce: while the caller does not poll, a later one replaces an earlier one.
//!
//! A responder needs no clock: all timers are the requester's.

mod early;
mod execute;
mod resource;
mod transmit;

pub use early::EarlyRequest;

use std::collections::VecDeque;

use verbena_wire::aeth::{Credits, Syndrome};
use verbena_wire::middles::Middles;
use verbena_wire::opcode::Operation;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn, Qpn, RnrTimer};

use self::early::Early;
use self::resource::Resource;
use super::Reliable;
use crate::access::ResponderAccess;
use crate::completion::Status;
use crate::disposition::{Disposition, Dropped};
use crate::fault::{self, Answer, Consequence, Fault, Next, ReceiveFate};
use crate::message::Inbound;

/// Configuration of a responder, set at the transition to ready to receive.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// RC or XRC.
    pub service: Reliable,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// The partition.
    pub partition_key: PKey,
    /// The path MTU; the peer's must be equal.
    pub mtu: Mtu,
    /// The PSN of the first packet (`rq_psn`).
    pub initial_psn: Psn,
    /// The wait time in RNR NAKs (`min_rnr_timer`).
    pub min_rnr_timer: RnrTimer,
    /// Number of reads and atomics kept for duplicates (`max_dest_rd_atomic`).
    pub max_dest_rd_atomic: usize,
    /// Maximum distance, in PSNs, of a kept early packet behind the missing one; with 0 all packets
    /// behind a gap must be retransmitted.
    pub early: u32,
}

/// The acknowledgement to send after all responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acknowledgement {
    psn: Psn,
    syndrome: Syndrome,
}

/// Whether a NAK for the expected packet was sent: until that packet arrives, no other follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    GoBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Responding,
    Failed,
}

/// The responder of a reliable queue pair.
#[derive(Debug)]
pub struct Responder {
    configuration: Configuration,
    expected: Psn,
    /// Message sequence number: completed messages, 24 bits.
    msn: u32,
    told: Told,
    inbound: Inbound,
    resources: VecDeque<Resource>,
    acknowledgement: Option<Acknowledgement>,
    early: Early,
    mode: Mode,
    /// The fault of a read that has failed during its response.
    revoked: Option<Fault>,
}

impl Responder {
    /// Returns a responder in its initial state.
    pub fn new(configuration: Configuration) -> Self {
        Self {
            expected: configuration.initial_psn,
            msn: 0,
            told: Told::No,
            inbound: Inbound::default(),
            revoked: None,
            resources: VecDeque::new(),
            acknowledgement: None,
            early: Early::default(),
            mode: Mode::Responding,
            configuration,
        }
    }

    /// Returns the expected PSN.
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Returns the fault of a read that has failed during its response; its NAK is made.
    pub fn revoked(&self) -> Option<Fault> {
        self.revoked
    }

    /// Returns whether the responder has failed and ignores further requests.
    pub fn has_failed(&self) -> bool {
        self.mode == Mode::Failed
    }

    /// Returns whether the response to a read or an atomic is not yet completely sent.
    pub fn owes_response(&self) -> bool {
        self.resources.iter().any(|kept| kept.pending.is_some())
    }

    /// Changes `min_rnr_timer`, as a queue pair in ready to send may.
    pub fn set_min_rnr_timer(&mut self, timer: RnrTimer) {
        self.configuration.min_rnr_timer = timer;
    }

    /// Enters the error state: no further request is answered, and the current receive completes
    /// with a flush error. The adapter flushes the receives in the queue.
    pub fn flush(&mut self, access: &mut impl ResponderAccess) {
        self.mode = Mode::Failed;
        self.acknowledgement = None;
        self.resources.clear();
        self.early.clear();
        self.inbound.end_receive(Status::Flushed, access);
    }

    /// Handles a request. Call [`Self::next_early`] afterwards.
    pub fn handle(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Disposition {
        let bth = &packet.headers.bth;
        let operation = bth.opcode.operation();
        if self.mode == Mode::Failed {
            return Disposition::Dropped(Dropped::State);
        }
        if bth.opcode.service() != self.configuration.service.service() || !operation.is_request() {
            return Disposition::Dropped(Dropped::Service);
        }
        if !bth.partition_key.admits(self.configuration.partition_key) {
            return Disposition::Dropped(Dropped::PartitionKey);
        }
        match bth.psn.since(self.expected) {
            0 => self.expected_request(packet, access),
            ..0 => self.duplicate(packet, access),
            1.. => {
                if bth.psn.ahead_of(self.expected) <= self.configuration.early {
                    self.early.keep(packet);
                }
                self.gap(access)
            }
        }
    }

    /// Handles consecutive middle packets as [`Self::handle`] would one after another. Returns
    /// false, and has recorded nothing, unless it accepts all of them; the caller then handles them
    /// one by one.
    pub fn handle_middles(
        &mut self,
        middles: &Middles<'_>,
        access: &mut impl ResponderAccess,
    ) -> bool {
        let configuration = &self.configuration;
        let bth = middles.first_packet().headers.bth;
        let are_expected = self.mode == Mode::Responding
            && bth.opcode.service() == configuration.service.service()
            && bth.partition_key.admits(configuration.partition_key)
            && bth.psn == self.expected
            && self.told == Told::No
            && self.early.is_empty();
        let mtu = configuration.mtu;
        if !are_expected || self.inbound.middles(middles, mtu, access).is_err() {
            return false;
        }
        self.expected = self.expected.plus(middles.count());
        if middles.ack_request() {
            self.acknowledge();
        }
        true
    }

    /// Returns an early request that has become the expected one, for [`Self::handle`]; call until
    /// it returns `None`. Sends a NAK at once for a gap that then remains.
    pub fn next_early(&mut self, access: &mut impl ResponderAccess) -> Option<EarlyRequest> {
        if self.mode == Mode::Failed {
            return None;
        }
        let next = self.early.take(self.expected);
        if next.is_none() && self.told == Told::No && !self.early.is_empty() {
            self.refuse(Fault::SequenceGap, access);
        }
        next
    }

    fn expected_request(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Disposition {
        if self.told == Told::GoBack {
            self.told = Told::No;
            self.withdraw_nak();
        }
        let verdict = self
            .inbound
            .validate(packet, self.configuration.mtu, access)
            .and_then(|()| self.execute(packet, access));
        match verdict {
            Ok(()) => Disposition::Accepted,
            Err(fault) => Disposition::Refused(self.refuse(fault, access)),
        }
    }

    /// Handles a missing packet: sends one NAK (class B).
    fn gap(&mut self, access: &mut impl ResponderAccess) -> Disposition {
        match self.told {
            Told::GoBack => Disposition::Dropped(Dropped::Gap),
            Told::No => Disposition::Refused(self.refuse(Fault::SequenceGap, access)),
        }
    }

    /// Applies the consequences of a fault in the expected packet.
    fn refuse(&mut self, fault: Fault, access: &mut impl ResponderAccess) -> Consequence {
        let consequence = fault.consequence(fault::Responder::Reliable);
        let syndrome = match consequence.answer {
            Answer::Silence => None,
            Answer::RnrNak => Some(Syndrome::RnrNak(self.configuration.min_rnr_timer)),
            Answer::Nak(code) => Some(Syndrome::Nak(code)),
        };
        if let Some(syndrome) = syndrome {
            self.told = Told::GoBack;
            self.acknowledgement = Some(Acknowledgement {
                psn: self.expected,
                syndrome,
            });
        }
        if consequence.next == Next::ErrorState {
            self.mode = Mode::Failed;
            self.early.clear();
        }
        match consequence.receive {
            ReceiveFate::Untouched | ReceiveFate::Kept => consequence,
            ReceiveFate::Completed(status) => {
                // The receive's completion replaces the event.
                let told = self.inbound.end_receive(status, access);
                let event = if told { None } else { consequence.event };
                Consequence {
                    event,
                    ..consequence
                }
            }
        }
    }

    /// Handles a duplicate request: nothing executes twice (9.7.4.1.1, 9.7.5.1.4).
    fn duplicate(&mut self, packet: &Packet<'_>, access: &mut impl ResponderAccess) -> Disposition {
        match packet.headers.bth.opcode.operation() {
            Operation::SendFirst
            | Operation::SendMiddle
            | Operation::SendLast
            | Operation::SendLastImmediate
            | Operation::SendLastInvalidate
            | Operation::SendOnly
            | Operation::SendOnlyImmediate
            | Operation::SendOnlyInvalidate
            | Operation::WriteFirst
            | Operation::WriteMiddle
            | Operation::WriteLast
            | Operation::WriteLastImmediate
            | Operation::WriteOnly
            | Operation::WriteOnlyImmediate => {
                // A NAK that is not yet sent acknowledges the same packets.
                if !matches!(
                    self.acknowledgement,
                    Some(Acknowledgement {
                        syndrome: Syndrome::Nak(_) | Syndrome::RnrNak(_),
                        ..
                    })
                ) {
                    self.acknowledge();
                }
                Disposition::Duplicate
            }
            _ => self.duplicate_response(packet, access),
        }
    }

    /// Replaces an unsent NAK by the acknowledgement of all packets before it: the packet it asked
    /// for has arrived.
    fn withdraw_nak(&mut self) {
        if self
            .acknowledgement
            .is_some_and(|kept| !matches!(kept.syndrome, Syndrome::Ack(_)))
        {
            self.acknowledge();
        }
    }

    /// Acknowledges everything before the expected packet.
    fn acknowledge(&mut self) {
        self.acknowledgement = Some(Acknowledgement {
            psn: self.expected.previous(),
            syndrome: Syndrome::Ack(Credits::UNLIMITED),
        });
    }

    fn complete_message(&mut self) {
        self.msn = (self.msn + 1) & 0x00ff_ffff;
    }
}
