//! SENDs and RDMA WRITEs as the packets of a connection bring them (specification 9.7.4.1 and
//! 9.8.2.2): the same for reliable and unreliable connections.

use verbena_wire::Mtu;
use verbena_wire::middles::Middles;
use verbena_wire::opcode::{Kind, Place};
use verbena_wire::packet::Packet;
use verbena_wire::reth::Reth;

use crate::access::{Access, Receive, Region, ResponderAccess, Taken};
use crate::assembly;
use crate::completion::{ReceiveCompletion, Received, Status, Tail};
use crate::fault::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Send { received: u32 },
    Write { region: Region, received: u32 },
}

/// A partially received message.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    message: Option<Message>,
    /// The receive taken for it. An unreliable connection keeps that of a dropped message for the
    /// next one.
    receive: Option<Receive>,
}

impl Inbound {
    /// Returns whether a message is unfinished.
    pub(crate) fn is_begun(&self) -> bool {
        self.message.is_some()
    }

    /// Forgets the message, but keeps its receive.
    pub(crate) fn forget(&mut self) {
        self.message = None;
    }

    /// Checks the packet's position in the message, its length, and the queue pair's rights.
    pub(crate) fn validate(
        &self,
        packet: &Packet<'_>,
        mtu: Mtu,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let operation = packet.headers.bth.opcode.operation();
        let current = self.message.map(|message| match message {
            Message::Send { .. } => Kind::Send,
            Message::Write { .. } => Kind::Write,
        });
        assembly::sequence(current, operation.kind(), operation.place())?;
        assembly::length(operation.place(), packet.payload.len(), mtu)?;
        match Access::needed_by(operation.kind()) {
            Some(needed) if !access.supports(needed) => Err(Fault::UnsupportedOpcode),
            _ => Ok(()),
        }
    }

    /// Executes a packet of a SEND.
    pub(crate) fn send(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let before = match self.message {
            Some(Message::Send { received }) => received,
            _ => 0,
        };
        let receive = self.receive(packet, access)?;
        let length = packet.payload.len() as u32;
        let received = before + length;
        assembly::fits(received.into(), receive.length.into())?;
        if length > 0 {
            access
                .fill(receive.id, before, packet.payload)
                .map_err(|_| Fault::ReceiveProtection)?;
        }
        self.message = Some(Message::Send { received });
        if ends(packet) {
            let tail = tail(packet, access)?;
            self.complete(packet, Received::Send, received, tail, access);
        }
        Ok(())
    }

    /// Executes a packet of an RDMA WRITE. A refused one changes nothing, so that it can be
    /// repeated.
    pub(crate) fn write(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let (region, before) = match (self.message, packet.headers.extensions.reth) {
            (Some(Message::Write { region, received }), _) => (region, received),
            (_, Some(reth)) => (region_of(reth)?, 0),
            (_, None) => return Err(Fault::MissingFirst),
        };
        let length = packet.payload.len() as u32;
        let place = packet.headers.bth.opcode.operation().place();
        let received = assembly::written(place, before, length, region.length)?;
        let with_immediate = packet.headers.extensions.immediate.is_some();
        if with_immediate {
            self.receive(packet, access)?;
        }
        if before == 0 && region.length > 0 {
            access
                .check(region, Access::Write)
                .map_err(|_| Fault::RemoteAccess)?;
        }
        if length > 0 {
            let piece = Region {
                address: region.address.wrapping_add(before.into()),
                length,
                ..region
            };
            access.write(piece, packet.payload)?;
        }
        self.message = Some(Message::Write { region, received });
        if ends(packet) {
            match with_immediate {
                true => {
                    let tail = tail(packet, access)?;
                    self.complete(packet, Received::WriteImmediate, received, tail, access);
                }
                false => self.message = None,
            }
        }
        Ok(())
    }

    /// Executes consecutive middle packets of the message. After a fault nothing is recorded, so
    /// that they can be repeated one by one.
    pub(crate) fn middles(
        &mut self,
        middles: &Middles<'_>,
        mtu: Mtu,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        self.validate(&middles.first_packet(), mtu, access)?;
        let length = middles.length();
        match self.message {
            Some(Message::Send { received }) => {
                let receive = self.receive.ok_or(Fault::ReceiverNotReady)?;
                assembly::fits(
                    u64::from(received) + u64::from(length),
                    receive.length.into(),
                )?;
                access
                    .fill_each(receive.id, received, middles)
                    .map_err(|_| Fault::ReceiveProtection)?;
                let received = received + length;
                self.message = Some(Message::Send { received });
            }
            Some(Message::Write { region, received }) => {
                let after = assembly::written(Place::Middle, received, length, region.length)?;
                let piece = Region {
                    address: region.address.wrapping_add(received.into()),
                    length,
                    ..region
                };
                access.write_each(piece, middles)?;
                let received = after;
                self.message = Some(Message::Write { region, received });
            }
            None => return Err(Fault::MissingFirst),
        }
        Ok(())
    }

    /// Returns the receive of this message: one taken already, or the next in the queue.
    fn receive(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<Receive, Fault> {
        if let Some(receive) = self.receive {
            return Ok(receive);
        }
        let shared = packet.headers.extensions.xrceth.map(|header| header.srq);
        match access.take_receive(shared) {
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
        tail: Tail,
        access: &mut impl ResponderAccess,
    ) {
        self.message = None;
        let Some(receive) = self.receive.take() else {
            return;
        };
        access.complete(ReceiveCompletion {
            id: receive.id,
            status: Status::Success,
            received,
            length,
            tail,
            solicited: packet.headers.bth.solicited_event,
        });
    }

    /// Forgets the message and completes its receive in error; returns whether there was one.
    pub(crate) fn end_receive(
        &mut self,
        status: Status,
        access: &mut impl ResponderAccess,
    ) -> bool {
        let length = match self.message.take() {
            Some(Message::Send { received }) => received,
            _ => 0,
        };
        let Some(receive) = self.receive.take() else {
            return false;
        };
        access.complete(ReceiveCompletion {
            id: receive.id,
            status,
            received: Received::Send,
            length,
            tail: Tail::Nothing,
            solicited: false,
        });
        true
    }
}

fn tail(packet: &Packet<'_>, access: &mut impl ResponderAccess) -> Result<Tail, Fault> {
    let extensions = &packet.headers.extensions;
    match (extensions.immediate, extensions.ieth) {
        (Some(immediate), _) => Ok(Tail::Immediate(immediate)),
        (None, Some(ieth)) => match access.invalidate(ieth.key) {
            Ok(()) => Ok(Tail::Invalidated(ieth.key)),
            Err(_) => Err(Fault::Invalidate),
        },
        (None, None) => Ok(Tail::Nothing),
    }
}

/// Returns whether the packet is the last of its message.
pub(crate) fn ends(packet: &Packet<'_>) -> bool {
    packet.headers.bth.opcode.operation().place().ends()
}

/// Returns the range that a request names.
pub(crate) fn region_of(reth: Reth) -> Result<Region, Fault> {
    let Reth {
        address,
        key,
        length,
    } = reth;
    assembly::message(length)?;
    Ok(Region {
        key,
        address,
        length,
    })
}
