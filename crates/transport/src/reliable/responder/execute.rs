//! Execution of requests (specification 9.7.4.1.3 to 9.7.4.1.7, 9.4).

use verbena_wire::opcode::{Kind, Place};
use verbena_wire::packet::Packet;
use verbena_wire::reth::Reth;

use super::resource::Response;
use super::{Message, Responder};
use crate::access::{
    Access, AtomicError, AtomicOperation, Receive, Region, ResponderAccess, Taken,
};
use crate::assembly;
use crate::completion::{ReceiveCompletion, Received, Status, Tail};
use crate::fault::Fault;

impl From<AtomicError> for Fault {
    fn from(error: AtomicError) -> Self {
        match error {
            AtomicError::Access => Self::RemoteAccess,
            AtomicError::Operation => Self::Operation,
        }
    }
}

impl Responder {
    /// Executes the expected request. The caller has checked its position in the message and its
    /// length.
    pub(super) fn execute(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let kind = packet.headers.bth.opcode.operation().kind();
        if let Some(needed) = Access::needed_by(kind)
            && !access.supports(needed)
        {
            return Err(Fault::UnsupportedOpcode);
        }
        match kind {
            Kind::Send => self.send(packet, access),
            Kind::Write => self.write(packet, access),
            Kind::Read => self.read(packet, access),
            Kind::Atomic => self.atomic(packet, access),
            Kind::AtomicWrite => self.atomic_write(packet, access),
            Kind::Flush => self.flush_memory(packet, access),
            Kind::ReadResponse
            | Kind::Acknowledge
            | Kind::AtomicAcknowledge
            | Kind::CongestionNotification => Err(Fault::UnsupportedOpcode),
        }
    }

    fn send(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let (receive, before) = match self.message {
            Some(Message::Send { receive, received }) => (receive, received),
            _ => (take_receive(packet, access)?, 0),
        };
        // From here on a fault completes the receive in error.
        self.message = Some(Message::Send {
            receive,
            received: before,
        });
        let length = packet.payload.len() as u32;
        let received = before + length;
        assembly::fits(received.into(), receive.length.into())?;
        if length > 0 {
            access
                .fill(receive.id, before, packet.payload)
                .map_err(|_| Fault::ReceiveProtection)?;
        }
        self.message = Some(Message::Send { receive, received });
        if ends(packet) {
            let tail = self.tail(packet, access)?;
            self.message = None;
            self.complete(packet, receive, Received::Send, received, tail, access);
        }
        self.accept(packet);
        Ok(())
    }

    fn tail(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<Tail, Fault> {
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

    fn write(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let immediate = packet.headers.extensions.immediate;
        let (region, before) = match (self.message, packet.headers.extensions.reth) {
            (Some(Message::Write { region, received }), _) => (region, received),
            (_, Some(reth)) => (region_of(reth)?, 0),
            _ => return Err(Fault::MissingFirst),
        };
        let length = packet.payload.len() as u32;
        let place = packet.headers.bth.opcode.operation().place();
        let received = assembly::written(place, before, length, region.length)?;
        // Before the key check: on RNR the requester retries, and nothing was changed.
        let receive = match immediate {
            Some(_) => Some(take_receive(packet, access)?),
            None => None,
        };
        let piece = Region {
            address: region.address.wrapping_add(before.into()),
            length,
            ..region
        };
        let written = if before == 0 && region.length > 0 {
            access
                .check(region, Access::Write)
                .and_then(|()| access.write(piece, packet.payload))
        } else if length > 0 {
            access.write(piece, packet.payload)
        } else {
            Ok(())
        };
        if written.is_err() {
            // The fault completes the receive in error.
            self.message = receive.map(|receive| Message::Send {
                receive,
                received: 0,
            });
            return Err(Fault::RemoteAccess);
        }
        self.message = Some(Message::Write { region, received });
        if ends(packet) {
            self.message = None;
            if let (Some(receive), Some(immediate)) = (receive, immediate) {
                let tail = Tail::Immediate(immediate);
                self.complete(
                    packet,
                    receive,
                    Received::WriteImmediate,
                    received,
                    tail,
                    access,
                );
            }
        }
        self.accept(packet);
        Ok(())
    }

    fn read(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let region = region_of(reth(packet)?)?;
        self.make_room()?;
        if region.length > 0 {
            access
                .check(region, Access::Read)
                .map_err(|_| Fault::RemoteAccess)?;
        }
        self.keep(Response::Read(region));
        Ok(())
    }

    fn atomic(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let Some(header) = packet.headers.extensions.atomic_eth else {
            return Err(Fault::UnsupportedOpcode);
        };
        let operation = match packet.headers.bth.opcode.operation() {
            verbena_wire::opcode::Operation::CompareSwap => AtomicOperation::CompareSwap {
                compare: header.compare,
                swap: header.swap_or_add,
            },
            _ => AtomicOperation::FetchAdd {
                add: header.swap_or_add,
            },
        };
        assembly::aligned(header.address)?;
        let region = Region {
            key: header.key,
            address: header.address,
            length: 8,
        };
        self.make_room()?;
        let original = access.atomic(region, operation)?;
        self.keep(Response::Atomic(original));
        Ok(())
    }

    fn atomic_write(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let region = region_of(reth(packet)?)?;
        let (8, Ok(bytes)) = (region.length, packet.payload.try_into()) else {
            return Err(Fault::MessageLength);
        };
        assembly::aligned(region.address)?;
        self.make_room()?;
        access.atomic_write(region, bytes)?;
        self.keep(Response::Done);
        Ok(())
    }

    fn flush_memory(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        let region = region_of(reth(packet)?)?;
        let Some(feth) = packet.headers.extensions.feth else {
            return Err(Fault::UnsupportedOpcode);
        };
        self.make_room()?;
        access
            .flush(region, feth)
            .map_err(|_| Fault::RemoteAccess)?;
        self.keep(Response::Done);
        Ok(())
    }

    /// Updates the state after a packet of a SEND or WRITE was executed.
    fn accept(&mut self, packet: &Packet<'_>) {
        if ends(packet) {
            self.complete_message();
        }
        self.expected = self.expected.next();
        if packet.headers.bth.ack_request {
            self.acknowledge();
        }
    }

    fn complete(
        &mut self,
        packet: &Packet<'_>,
        receive: Receive,
        received: Received,
        length: u32,
        tail: Tail,
        access: &mut impl ResponderAccess,
    ) {
        access.complete(ReceiveCompletion {
            id: receive.id,
            status: Status::Success,
            received,
            length,
            tail,
            solicited: packet.headers.bth.solicited_event,
        });
    }
}

fn ends(packet: &Packet<'_>) -> bool {
    matches!(
        packet.headers.bth.opcode.operation().place(),
        Place::Last | Place::Only
    )
}

fn reth(packet: &Packet<'_>) -> Result<Reth, Fault> {
    packet
        .headers
        .extensions
        .reth
        .ok_or(Fault::UnsupportedOpcode)
}

fn region_of(reth: Reth) -> Result<Region, Fault> {
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

fn take_receive(packet: &Packet<'_>, access: &mut impl ResponderAccess) -> Result<Receive, Fault> {
    let shared = packet.headers.extensions.xrceth.map(|header| header.srq);
    match access.take_receive(shared) {
        Taken::Receive(receive) => Ok(receive),
        Taken::NotReady => Err(Fault::ReceiverNotReady),
        Taken::NoSuchQueue => Err(Fault::NoSharedReceiveQueue),
    }
}
