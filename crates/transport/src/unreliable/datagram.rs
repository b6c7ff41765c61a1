//! The responder of a datagram queue pair (specification 9.8.3.2): each packet is a message.

use verbena_wire::opcode::Service;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, QKey, grh};

use crate::access::{Receive, ResponderAccess, Taken};
use crate::assembly;
use crate::completion::{ReceiveCompletion, Received, Status, Tail};
use crate::datagram;
use crate::disposition::{Disposition, Dropped};
use crate::fault::{Fault, Next, ReceiveFate, Responder};

/// Configuration of a responder, set at the transition to ready to receive.
#[derive(Debug, Clone)]
pub struct DatagramConfiguration {
    /// The partition.
    pub partition_key: PKey,
    /// The Q_Key that a datagram must carry.
    pub queue_key: QKey,
    /// The port's MTU.
    pub mtu: Mtu,
}

/// The responder of a datagram queue pair.
#[derive(Debug)]
pub struct DatagramResponder {
    configuration: DatagramConfiguration,
    /// A receive taken for a datagram that did not fit, kept for the next.
    receive: Option<Receive>,
    failed: bool,
}

impl DatagramResponder {
    /// Returns a responder in its initial state.
    pub fn new(configuration: DatagramConfiguration) -> Self {
        Self {
            configuration,
            receive: None,
            failed: false,
        }
    }

    /// Enters the error state: the current receive completes with a flush error. The adapter
    /// flushes the receives in the queue.
    pub fn flush(&mut self, access: &mut impl ResponderAccess) {
        self.failed = true;
        if let Some(receive) = self.receive.take() {
            end_receive(receive, Status::Flushed, access);
        }
    }

    /// Handles a datagram. `route` is written to the receive before the payload: the global route
    /// header or its substitute.
    pub fn handle(
        &mut self,
        packet: &Packet<'_>,
        route: &[u8; grh::LENGTH],
        access: &mut impl ResponderAccess,
    ) -> Disposition {
        let bth = &packet.headers.bth;
        let Some(deth) = packet.headers.extensions.deth else {
            return Disposition::Dropped(Dropped::Service);
        };
        if self.failed {
            return Disposition::Dropped(Dropped::State);
        }
        if bth.opcode.service() != Service::Ud {
            return Disposition::Dropped(Dropped::Service);
        }
        if !bth.partition_key.admits(self.configuration.partition_key) {
            return Disposition::Dropped(Dropped::PartitionKey);
        }
        if let Err(why) = datagram::check_key(self.configuration.queue_key, deth.queue_key) {
            return Disposition::Dropped(why);
        }
        match self.place(packet, route, access) {
            Ok((receive, length)) => {
                self.receive = None;
                let immediate = packet.headers.extensions.immediate;
                let tail = immediate.map_or(Tail::Nothing, Tail::Immediate);
                access.complete(ReceiveCompletion {
                    id: receive.id,
                    status: Status::Success,
                    received: Received::Datagram {
                        source: deth.source,
                    },
                    length,
                    tail,
                    solicited: bth.solicited_event,
                });
                Disposition::Accepted
            }
            Err(fault) => {
                let consequence = fault.consequence(Responder::Datagram);
                self.failed |= consequence.next == Next::ErrorState;
                if let (ReceiveFate::Completed(status), Some(receive)) =
                    (consequence.receive, self.receive)
                {
                    self.receive = None;
                    end_receive(receive, status, access);
                }
                Disposition::Refused(consequence)
            }
        }
    }

    /// Copies the datagram into a receive.
    fn place(
        &mut self,
        packet: &Packet<'_>,
        route: &[u8; grh::LENGTH],
        access: &mut impl ResponderAccess,
    ) -> Result<(Receive, u32), Fault> {
        if packet.payload.len() > self.configuration.mtu.bytes() as usize {
            return Err(Fault::PacketLength);
        }
        let receive = match self.receive {
            Some(receive) => receive,
            None => match access.take_receive(None) {
                Taken::Receive(receive) => receive,
                Taken::NotReady => return Err(Fault::ReceiverNotReady),
                Taken::NoSuchQueue => return Err(Fault::NoSharedReceiveQueue),
            },
        };
        self.receive = Some(receive);
        let before = grh::LENGTH as u32;
        let length = datagram::length(packet.payload.len() as u64);
        assembly::fits(length, receive.length.into())?;
        let length = length as u32;
        let mut fill = |offset, bytes: &[u8]| {
            access
                .fill(receive.id, offset, bytes)
                .map_err(|_| Fault::ReceiveProtection)
        };
        fill(0, route)?;
        if !packet.payload.is_empty() {
            fill(before, packet.payload)?;
        }
        Ok((receive, length))
    }
}

fn end_receive(receive: Receive, status: Status, access: &mut impl ResponderAccess) {
    access.complete(ReceiveCompletion {
        id: receive.id,
        status,
        received: Received::Send,
        length: 0,
        tail: Tail::Nothing,
        solicited: false,
    });
}
