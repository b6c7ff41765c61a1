//! Responder resources: what is kept of each read and atomic until later ones take its place, for answering it and for
//! answering its duplicates (specification 9.7.5.1.4 and 9.4.4).

use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn};

use super::Responder;
use crate::access::{Access, Region, ResponderAccess};
use crate::disposition::{Disposition, Dropped};
use crate::fault::Fault;
use crate::segment::Segments;

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Memory, read anew each time: the program may have changed it, which a read may see.
    Read(Region),
    /// What an atomic found: done once, answered as often as asked.
    Atomic(u64),
    /// That an ATOMIC WRITE or a FLUSH is done.
    Done,
}

/// Which packets of a response are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pending {
    /// Where the response begins.
    pub(super) start: u32,
    /// What is next.
    pub(super) next: u32,
}

/// A read or atomic that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) first: Psn,
    pub(super) packets: u32,
    pub(super) response: Response,
    pub(super) msn: u32,
    /// What of it has not left.
    pub(super) pending: Option<Pending>,
    /// Whether it was answered to the end at least once.
    pub(super) answered: Answered,
}

/// Whether a response has left completely. A requester may not ask for more than there are resources before it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    NotYet,
    Once,
}

impl Resource {
    /// How its response is cut.
    pub(super) fn segments(&self, mtu: Mtu) -> Segments {
        let length = match self.response {
            Response::Read(region) => region.length,
            Response::Atomic(_) | Response::Done => 0,
        };
        Segments { mtu, length }
    }
}

impl Responder {
    /// Room for one more resource: the oldest goes, unless it was never answered.
    pub(super) fn make_room(&mut self) -> Result<(), Fault> {
        let most = self.configuration.max_dest_rd_atomic;
        if most == 0 {
            return Err(Fault::UnsupportedOpcode);
        }
        if self.resources.len() < most {
            return Ok(());
        }
        match self.resources.front() {
            Some(oldest) if oldest.answered == Answered::NotYet => Err(Fault::TooManyReads),
            _ => {
                self.resources.pop_front();
                Ok(())
            }
        }
    }

    /// The expected request is a read or atomic that is carried out: it takes its PSNs and is answered.
    pub(super) fn keep(&mut self, response: Response) {
        let mut resource = Resource {
            first: self.expected,
            packets: 1,
            response,
            msn: 0,
            pending: Some(Pending { start: 0, next: 0 }),
            answered: Answered::NotYet,
        };
        resource.packets = resource.segments(self.configuration.mtu).count();
        self.complete_message();
        resource.msn = self.msn;
        self.expected = self.expected.plus(resource.packets);
        // The response acknowledges all before it.
        self.acknowledgement = None;
        self.resources.push_back(resource);
    }

    /// A read or atomic that was seen before is answered again if it is kept, and if a read asks for the rest of what
    /// it asked for from any of its packets on.
    pub(super) fn duplicate_response(
        &mut self,
        packet: &Packet<'_>,
        access: &mut impl ResponderAccess,
    ) -> Disposition {
        const FORGOTTEN: Disposition = Disposition::Dropped(Dropped::Forgotten);
        let psn = packet.headers.bth.psn;
        let mtu = self.configuration.mtu.bytes();
        let Some(resource) = self.resources.iter_mut().find(|resource| {
            (0..i64::from(resource.packets)).contains(&i64::from(psn.since(resource.first)))
        }) else {
            return FORGOTTEN;
        };
        let index = psn.since(resource.first).unsigned_abs();
        let extensions = &packet.headers.extensions;
        let same = match (resource.response, extensions.reth, extensions.atomic_eth) {
            (Response::Read(region), Some(reth), _) if extensions.feth.is_none() => {
                let skipped = index * mtu;
                let rest = Region {
                    key: reth.key,
                    address: region.address.wrapping_add(skipped.into()),
                    length: region.length - skipped,
                };
                rest.key == region.key
                    && rest.address == reth.address
                    && rest.length == reth.length
                    && packet.payload.is_empty()
                    && (rest.length == 0 || access.check(rest, Access::Read).is_ok())
            }
            (Response::Atomic(_), _, Some(_)) => true,
            (Response::Done, Some(_), _) => true,
            _ => false,
        };
        if !same {
            return FORGOTTEN;
        }
        resource.pending = Some(Pending {
            start: index,
            next: index,
        });
        Disposition::Duplicate
    }
}
