//! The responder of an unreliable connection (specification 9.8.2.2).
//!
//! A message with a missing packet is dropped: the responder waits for the beginning of another.
//! The next message uses the receive that was taken for the dropped one, so a lost message consumes
//! no receive.

use verbena_wire::opcode::{self, Kind};
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn};

use crate::access::ResponderAccess;
use crate::completion::Status;
use crate::disposition::{Disposition, Dropped};
use crate::fault::{Consequence, Fault, Next, ReceiveFate, Responder};
use crate::message::Inbound;

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

/// The responder of an unreliable connection.
#[derive(Debug)]
pub struct ConnectedResponder {
    configuration: ConnectedConfiguration,
    expected: Psn,
    inbound: Inbound,
    failed: bool,
}

impl ConnectedResponder {
    /// Returns a responder in its initial state.
    pub fn new(configuration: ConnectedConfiguration) -> Self {
        let expected = configuration.initial_psn;
        Self {
            configuration,
            expected,
            inbound: Inbound::default(),
            failed: false,
        }
    }

    /// Enters the error state: the current receive completes with a flush error. The adapter
    /// flushes the receives in the queue.
    pub fn flush(&mut self, access: &mut impl ResponderAccess) {
        self.failed = true;
        self.inbound.end_receive(Status::Flushed, access);
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
        let begins = bth.opcode.operation().place().begins();
        if gap && self.inbound.is_begun() {
            // A loss within a message is treated like the beginning of another message.
            let consequence = self.refuse(Fault::MissingLast, access);
            if !begins {
                return Disposition::Refused(consequence);
            }
        }
        match self.execute(packet, access) {
            Ok(()) => Disposition::Accepted,
            // Drop the unfinished message; this packet begins another.
            Err(Fault::MissingLast) if begins => {
                let consequence = self.refuse(Fault::MissingLast, access);
                match self.execute(packet, access) {
                    Ok(()) => Disposition::Refused(consequence),
                    Err(fault) => Disposition::Refused(self.refuse(fault, access)),
                }
            }
            Err(fault) => Disposition::Refused(self.refuse(fault, access)),
        }
    }

    fn refuse(&mut self, fault: Fault, access: &mut impl ResponderAccess) -> Consequence {
        let responder = match self.configuration.receive_queue {
            ReceiveQueue::Own => Responder::UnreliableConnected,
            ReceiveQueue::Shared => Responder::UnreliableConnectedShared,
        };
        let consequence = fault.consequence(responder);
        self.failed |= consequence.next == Next::ErrorState;
        match consequence.receive {
            ReceiveFate::Completed(status) => {
                let told = self.inbound.end_receive(status, access);
                let event = if told { None } else { consequence.event };
                Consequence {
                    event,
                    ..consequence
                }
            }
            ReceiveFate::Kept | ReceiveFate::Untouched => {
                self.inbound.forget();
                consequence
            }
        }
    }

    fn execute(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        self.inbound
            .validate(packet, self.configuration.mtu, access)?;
        match packet.headers.bth.opcode.operation().kind() {
            Kind::Send => self.inbound.send(packet, access),
            Kind::Write => self.inbound.write(packet, access),
            _ => Err(Fault::UnsupportedOpcode),
        }
    }
}
