//! The responder of a reliable queue pair.
//!
//! **What arrives** is judged in the order of the specification's figure "Responder Inbound Request Packet
//! Validation" (9.7.4.1): PSN, sequence of opcodes, opcode, length, receive, key; then it takes effect. A packet that
//! is refused has no effect. What comes behind a packet that is missing waits for it ([`early`]).
//!
//! **What leaves** is ordered by PSN: responses to reads and atomics, from the resources that are kept for them, then at
//! most one acknowledgement, which stands for all before it. So acknowledgements coalesce by themselves: while the
//! caller does not poll, a later one replaces an earlier.
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

/// What a responder is told when its queue pair becomes ready to receive.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// RC or XRC.
    pub service: Reliable,
    /// The peer.
    pub destination: Qpn,
    /// The partition.
    pub partition_key: PKey,
    /// The path MTU; the peer's must be equal.
    pub mtu: Mtu,
    /// The PSN of the first packet (`rq_psn`).
    pub initial_psn: Psn,
    /// What a requester is told to wait when there is no receive (`min_rnr_timer`).
    pub min_rnr_timer: RnrTimer,
    /// Reads and atomics kept for duplicates (`max_dest_rd_atomic`).
    pub max_dest_rd_atomic: usize,
    /// How many PSNs behind one that is missing a packet may be to be kept; with 0 all that is behind a gap must come again.
    pub early: u32,
}

/// A message of which not all packets have come.
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

/// What is to be said after all responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acknowledgement {
    psn: Psn,
    syndrome: Syndrome,
}

/// Whether the requester was told to go back to the expected packet: until that comes, nothing more is said.
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
    /// Messages completed, 24 bits.
    msn: u32,
    told: Told,
    message: Option<Message>,
    resources: VecDeque<Resource>,
    acknowledgement: Option<Acknowledgement>,
    early: Early,
    mode: Mode,
}

impl Responder {
    /// A responder that has seen nothing.
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

    /// The PSN that comes next.
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Messages completed, modulo 2^24.
    pub fn message_sequence_number(&self) -> u32 {
        self.msn
    }

    /// Whether it answers no more requests.
    pub fn has_failed(&self) -> bool {
        self.mode == Mode::Failed
    }

    /// Whether the response to a read or an atomic has not left completely.
    pub fn owes_response(&self) -> bool {
        self.resources.iter().any(|kept| kept.pending.is_some())
    }

    /// Changes `min_rnr_timer`, as a queue pair that is ready to send may.
    pub fn set_min_rnr_timer(&mut self, timer: RnrTimer) {
        self.configuration.min_rnr_timer = timer;
    }

    /// To the error state: nothing is answered any more, and a receive in hand ends with a flush error. Those in the
    /// queue are the adapter's.
    pub fn flush(&mut self, access: &mut impl ResponderAccess) {
        self.mode = Mode::Failed;
        self.acknowledgement = None;
        self.resources.clear();
        self.early.clear();
        self.end_receive(Status::Flushed, access);
    }

    /// Takes a request. Afterwards [`Self::next_early`] may have more.
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

    /// The request that came early and whose turn it is now, for [`Self::handle`]: to be asked for until there is none. A
    /// gap that is left then is told at once.
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

    /// What can be judged by the packet and the messages before it.
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

    /// A packet is missing: told once (class B).
    fn gap(&mut self, access: &mut impl ResponderAccess) -> Disposition {
        match self.told {
            Told::GoBack => Disposition::Dropped(Dropped::Gap),
            Told::No => Disposition::Refused(self.refuse(Fault::SequenceGap, access)),
        }
    }

    /// Carries out what follows from a fault in the expected packet.
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
                // A completion tells what an event would.
                let told = self.end_receive(status, access);
                let event = if told { None } else { consequence.event };
                Consequence {
                    event,
                    ..consequence
                }
            }
        }
    }

    /// The receive in hand, if there is one, ends without success.
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

    /// A request that was seen before: nothing takes effect twice (9.7.4.1.1, 9.7.5.1.4).
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
                // A NAK that has not left yet acknowledges the same.
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

    /// What a NAK asked for has come: if it has not left yet, its acknowledgement of all before is left of it.
    fn withdraw_nak(&mut self) {
        if self
            .acknowledgement
            .is_some_and(|kept| !matches!(kept.syndrome, Syndrome::Ack(_)))
        {
            self.acknowledge();
        }
    }

    /// Acknowledges everything up to the expected packet.
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
