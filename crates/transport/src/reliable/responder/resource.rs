//! Responder resources: the state of the most recent reads and atomics, kept to answer them and
//! their duplicates (specification 9.7.5.1.4 and 9.4.4).

use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn};

use super::Responder;
use crate::access::{Access, Region, ResponderAccess};
use crate::disposition::{Disposition, Dropped};
use crate::fault::Fault;
use crate::order;
use crate::segment::Segments;

/// The content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Memory, read again for each response: the program may have changed it, and a read may see
    /// that.
    Read(Region),
    /// The result of an atomic: executed once, returned for each duplicate.
    Atomic(u64),
    /// Acknowledges an ATOMIC WRITE or a FLUSH.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pending {
    /// The index of the first.
    pub(super) start: u32,
    /// The index of the next.
    pub(super) next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) first: Psn,
    pub(super) packets: u32,
    pub(super) response: Response,
    pub(super) msn: u32,
    /// The packets that are not sent yet.
    pub(super) pending: Option<Pending>,
    /// Whether the response was sent completely at least once.
    pub(super) answered: Answered,
}

/// Whether a response was sent completely. Before that the requester may not exceed the number of
/// resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    NotYet,
    Once,
}

impl Resource {
    pub(super) fn segments(&self, mtu: Mtu) -> Segments {
        let length = match self.response {
            Response::Read(region) => region.length,
            Response::Atomic(_) | Response::Done => 0,
        };
        Segments { mtu, length }
    }
}

impl Responder {
    /// Frees one resource by dropping the oldest, unless its response was never sent
    /// completely.
    pub(super) fn make_room(&mut self) -> Result<(), Fault> {
        let most = self.configuration.max_dest_rd_atomic;
        order::check_resources(most as u32)?;
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

    /// Stores the response of the executed read or atomic at the expected PSN, and advances the
    /// expected PSN.
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
        // The response acknowledges everything before it.
        self.acknowledgement = None;
        self.resources.push_back(resource);
    }

    /// Answers a duplicate read or atomic if its resource is kept. A read must ask for the
    /// remainder of the original request from one of its packets on.
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
