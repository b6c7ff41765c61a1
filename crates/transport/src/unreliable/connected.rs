//! The responder of an unreliable connection (specification 9.8.2.2).
//!
//! A message with a missing packet is dropped: the responder waits for the beginning of another.
//! The next message uses the receive that was taken for the dropped one, so a lost message consumes
//! no receive.

use verbena_wire::opcode::{self, Kind, Place};
use verbena_wire::packet::Packet;
use verbena_wire::reth::Reth;
use verbena_wire::{Mtu, PKey, Psn};

use crate::access::{Access, Receive, Region, ResponderAccess, Taken};
use crate::assembly;
use crate::completion::{ReceiveCompletion, Received, Status, Tail};
use crate::disposition::{Disposition, Dropped};
use crate::fault::{Consequence, Fault, Next, ReceiveFate, Responder};

/// The queue that the receives come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReceiveQueue {
    /// The queue pair's receive queue.
    Own,
    /// A shared receive queue: a taken receive cannot be kept for another message (class E).
    Shared,
}

/// Configuration of a responder, set at the transition to ready to receive.
#[derive(Debug, Clone)]
pub struct ConnectedConfiguration {
    /// The partition.
    pub partition_key: PKey,
    /// The path MTU.
    pub mtu: Mtu,
    /// The PSN of the first packet.
    pub initial_psn: Psn,
    /// The queue that the receives come from.
    pub receive_queue: ReceiveQueue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    /// None: the responder waits for the beginning of a message.
    None,
    Send {
        received: u32,
    },
    Write {
        region: Region,
        received: u32,
    },
}

impl Message {
    fn kind(self) -> Option<Kind> {
        match self {
            Self::None => None,
            Self::Send { .. } => Some(Kind::Send),
            Self::Write { .. } => Some(Kind::Write),
        }
    }
}

/// The responder of an unreliable connection.
#[derive(Debug)]
pub struct ConnectedResponder {
    configuration: ConnectedConfiguration,
    expected: Psn,
    message: Message,
    /// The receive taken for the current or the next message.
    receive: Option<Receive>,
    failed: bool,
}

impl ConnectedResponder {
    /// Returns a responder in its initial state.
    pub fn new(configuration: ConnectedConfiguration) -> Self {
        let expected = configuration.initial_psn;
        Self {
            configuration,
            expected,
            message: Message::None,
            receive: None,
            failed: false,
        }
    }

    /// Enters the error state: the current receive completes with a flush error. The adapter
    /// flushes the receives in the queue.
    pub fn flush(&mut self, access: &mut impl ResponderAccess) {
        self.failed = true;
        self.end_receive(Status::Flushed, access);
    }

    /// Handles a request.
    pub fn handle(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Disposition {
        let bth = &packet.headers.bth;
        if self.failed {
            return Disposition::Dropped(Dropped::State);
        }
        if bth.opcode.service() != opcode::Service::Uc {
            return Disposition::Dropped(Dropped::Service);
        }
        if !bth.partition_key.admits(self.configuration.partition_key) {
            return Disposition::Dropped(Dropped::PartitionKey);
        }
        let gap = bth.psn != self.expected;
        self.expected = bth.psn.next();
        if gap && self.message != Message::None {
            // A loss within a message is treated like the beginning of another message.
            let consequence = self.refuse(Fault::MissingLast, access);
            if !begins(packet) {
                return Disposition::Refused(consequence);
            }
        }
        let verdict = self
            .validate(packet)
            .and_then(|()| self.execute(packet, access));
        match verdict {
            Ok(()) => Disposition::Accepted,
            // Drop the unfinished message; this packet begins another.
            Err(Fault::MissingLast) if begins(packet) => {
                let consequence = self.refuse(Fault::MissingLast, access);
                match self
                    .validate(packet)
                    .and_then(|()| self.execute(packet, access))
                {
                    Ok(()) => Disposition::Refused(consequence),
                    Err(fault) => Disposition::Refused(self.refuse(fault, access)),
                }
            }
            Err(fault) => Disposition::Refused(self.refuse(fault, access)),
        }
    }

    fn validate(&self, packet: &Packet<'_>) -> Result<(), Fault> {
        let operation = packet.headers.bth.opcode.operation();
        assembly::sequence(self.message.kind(), operation.kind(), operation.place())?;
        assembly::length(
            operation.place(),
            packet.payload.len(),
            self.configuration.mtu,
        )
    }

    fn refuse(&mut self, fault: Fault, access: &mut impl ResponderAccess) -> Consequence {
        let responder = match self.configuration.receive_queue {
            ReceiveQueue::Own => Responder::UnreliableConnected,
            ReceiveQueue::Shared => Responder::UnreliableConnectedShared,
        };
        let consequence = fault.consequence(responder);
        self.message = Message::None;
        self.failed |= consequence.next == Next::ErrorState;
        match consequence.receive {
            ReceiveFate::Completed(status) => {
                let told = self.end_receive(status, access);
                let event = if told { None } else { consequence.event };
                Consequence {
                    event,
                    ..consequence
                }
            }
            ReceiveFate::Kept | ReceiveFate::Untouched => consequence,
        }
    }

    fn end_receive(&mut self, status: Status, access: &mut impl ResponderAccess) -> bool {
        let Some(receive) = self.receive.take() else {
            return false;
        };
        access.complete(ReceiveCompletion {
            id: receive.id,
            status,
            received: Received::Send,
            length: 0,
            tail: Tail::Nothing,
            solicited: false,
        });
        true
    }

    fn execute(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        match packet.headers.bth.opcode.operation().kind() {
            Kind::Send => self.send(packet, access),
            Kind::Write if !access.supports(Access::Write) => Err(Fault::UnsupportedOpcode),
            Kind::Write => self.write(packet, access),
            _ => Err(Fault::UnsupportedOpcode),
        }
    }

    fn send(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let before = match self.message {
            Message::Send { received } => received,
            Message::None | Message::Write { .. } => 0,
        };
        let receive = self.receive(access)?;
        let length = packet.payload.len() as u32;
        let received = before + length;
        assembly::fits(received.into(), receive.length.into())?;
        if length > 0 {
            access
                .fill(receive.id, before, packet.payload)
                .map_err(|_| Fault::ReceiveProtection)?;
        }
        self.message = Message::Send { received };
        if ends(packet) {
            self.message = Message::None;
            self.complete(packet, Received::Send, received, access);
        }
        Ok(())
    }

    fn write(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let (region, before) = match (self.message, packet.headers.extensions.reth) {
            (Message::Write { region, received }, _) => (region, received),
            (_, Some(reth)) => {
                assembly::message(reth.length)?;
                let Reth {
                    address,
                    key,
                    length,
                } = reth;
                (
                    Region {
                        key,
                        address,
                        length,
                    },
                    0,
                )
            }
            (_, None) => return Err(Fault::MissingFirst),
        };
        let length = packet.payload.len() as u32;
        let place = packet.headers.bth.opcode.operation().place();
        let received = assembly::written(place, before, length, region.length)?;
        let with_immediate = packet.headers.extensions.immediate.is_some();
        if with_immediate {
            self.receive(access)?;
        }
        if before == 0 && region.length > 0 {
            access
                .check(region, Access::Write)
                .map_err(|_| Fault::RemoteAccess)?;
        }
        if length > 0 {
            let address = region.address.wrapping_add(before.into());
            let piece = Region {
                address,
                length,
                ..region
            };
            access
                .write(piece, packet.payload)
                .map_err(|_| Fault::RemoteAccess)?;
        }
        self.message = Message::Write { region, received };
        if ends(packet) {
            self.message = Message::None;
            if with_immediate {
                self.complete(packet, Received::WriteImmediate, received, access);
            }
        }
        Ok(())
    }

    /// Returns the receive of this message: one kept from a dropped message, or the next in the
    /// queue.
    fn receive(&mut self, access: &mut impl ResponderAccess) -> Result<Receive, Fault> {
        if let Some(receive) = self.receive {
            return Ok(receive);
        }
        match access.take_receive(None) {
            Taken::Receive(receive) => {
                self.receive = Some(receive);
                Ok(receive)
            }
            Taken::NotReady => Err(Fault::ReceiverNotReady),
            Taken::NoSuchQueue => Err(Fault::NoSharedReceiveQueue),
        }
    }

    fn complete(
        &mut self,
        packet: &Packet<'_>,
        received: Received,
        length: u32,
        access: &mut impl ResponderAccess,
    ) {
        let Some(receive) = self.receive.take() else {
            return;
        };
        let immediate = packet.headers.extensions.immediate;
        access.complete(ReceiveCompletion {
            id: receive.id,
            status: Status::Success,
            received,
            length,
            tail: immediate.map_or(Tail::Nothing, Tail::Immediate),
            solicited: packet.headers.bth.solicited_event,
        });
    }
}

fn begins(packet: &Packet<'_>) -> bool {
    matches!(
        packet.headers.bth.opcode.operation().place(),
        Place::First | Place::Only
    )
}

fn ends(packet: &Packet<'_>) -> bool {
    matches!(
        packet.headers.bth.opcode.operation().place(),
        Place::Last | Place::Only
    )
}
