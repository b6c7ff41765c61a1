//! Execution of requests (specification 9.7.4.1.3 to 9.7.4.1.7, 9.4).

use verbena_wire::opcode::Kind;
use verbena_wire::packet::Packet;
use verbena_wire::reth::Reth;

use super::Responder;
use super::resource::Response;
use crate::access::{Access, AtomicOperation, Region, ResponderAccess};
use crate::assembly;
use crate::fault::Fault;
use crate::message::{ends, region_of};

impl Responder {
    /// Executes the expected request. The caller has checked its position in the message, its
    /// length, and the queue pair's rights.
    pub(super) fn execute(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Result<(), Fault> {
        if let Some(header) = packet.headers.extensions.xrceth
            && !access.has_queue(header.srq)
        {
            return Err(Fault::NoSharedReceiveQueue);
        }
        match packet.headers.bth.opcode.operation().kind() {
            Kind::Send => {
                self.inbound.send(packet, access)?;
                self.accept(packet);
                Ok(())
            }
            Kind::Write => {
                self.inbound.write(packet, access)?;
                self.accept(packet);
                Ok(())
            }
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
}

fn reth(packet: &Packet<'_>) -> Result<Reth, Fault> {
    packet
        .headers
        .extensions
        .reth
        .ok_or(Fault::UnsupportedOpcode)
}
