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
use verbena_wire::opcode::{Kind, Operation};
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn, Qpn, RnrTimer};

use self::early::Early;
use self::resource::Resource;
use super::Reliable;
use crate::access::{Receive, ResponderAccess};
use crate::assembly;
use crate::completion::{ReceiveCompletion, Received, Status, Tail};
use crate::disposition::{Disposition, Dropped};
use crate::fault::{self, Answer, Consequence, Fault, Next, ReceiveFate};

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

/// A partially received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Send {
        receive: Receive,
        received: u32,
    },
    Write {
        region: crate::access::Region,
        received: u32,
    },
}

impl Message {
    fn kind(&self) -> Kind {
        match self {
            Self::Send { .. } => Kind::Send,
            Self::Write { .. } => Kind::Write,
        }
    }
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
    message: Option<Message>,
    resources: VecDeque<Resource>,
    acknowledgement: Option<Acknowledgement>,
    early: Early,
    mode: Mode,
}

impl Responder {
    /// Returns a responder in its initial state.
    pub fn new(configuration: Configuration) -> Self {
        Self {
            expected: configuration.initial_psn,
            msn: 0,
            told: Told::No,
            message: None,
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
        self.end_receive(Status::Flushed, access);
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
        match self
            .validate(packet)
            .and_then(|()| self.execute(packet, access))
        {
            Ok(()) => Disposition::Accepted,
            Err(fault) => Disposition::Refused(self.refuse(fault, access)),
        }
    }

    /// Checks opcode sequence and packet length.
    fn validate(&self, packet: &Packet<'_>) -> Result<(), Fault> {
        let operation = packet.headers.bth.opcode.operation();
        let current = self.message.as_ref().map(Message::kind);
        assembly::sequence(current, operation.kind(), operation.place())?;
        assembly::length(
            operation.place(),
            packet.payload.len(),
            self.configuration.mtu,
        )
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
                let told = self.end_receive(status, access);
                let event = if told { None } else { consequence.event };
                Consequence {
                    event,
                    ..consequence
                }
            }
        }
    }

    /// Completes the current receive in error; returns whether there was one.
    fn end_receive(&mut self, status: Status, access: &mut impl ResponderAccess) -> bool {
        let Some(Message::Send { receive, received }) = self.message.take() else {
            return false;
        };
        access.complete(ReceiveCompletion {
            id: receive.id,
            status,
            received: Received::Send,
            length: received,
            tail: Tail::Nothing,
            solicited: false,
        });
        true
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
