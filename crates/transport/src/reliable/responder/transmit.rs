//! Makes responses and acknowledgements (specification 9.7.5.1).

use verbena_wire::aeth::{Aeth, Credits, NakCode, Syndrome};
use verbena_wire::atomic::AtomicAckEth;
use verbena_wire::bth::Bth;
use verbena_wire::opcode::{Operation, Place};
use verbena_wire::packet::{Extensions, Headers};
use verbena_wire::{EmitError, Psn};

use super::resource::{Answered, Pending, Resource, Response};
use super::{Acknowledgement, Mode, Responder};
use crate::access::{Region, ResponderAccess};
use crate::fault::{self, Answer, Fault};

impl Responder {
    /// Writes the next packet to the front of `buffer` and returns its length; `None` if there is
    /// nothing to send.
    ///
    /// A read whose access right is revoked during its first response fails here; the caller must
    /// check [`Responder::revoked`] afterwards.
    ///
    /// # Errors
    ///
    /// The buffer is too short for the packet. Nothing has changed.
    pub fn poll_transmit(
        &mut self,
        access: &mut impl ResponderAccess,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        let waiting = self
            .resources
            .iter()
            .position(|resource| resource.pending.is_some());
        if let Some(at) = waiting {
            let resource = self.resources[at];
            if let Some(pending) = resource.pending {
                return self.respond(at, resource, pending, access, buffer);
            }
        }
        let Some(Acknowledgement { psn, syndrome }) = self.acknowledgement else {
            return Ok(None);
        };
        let aeth = Some(Aeth {
            syndrome,
            msn: self.msn,
        });
        let extensions = Extensions {
            aeth,
            ..Extensions::NONE
        };
        let headers = self.headers(Operation::Acknowledge, psn, extensions);
        headers.emit_around(0, buffer)?;
        self.acknowledgement = None;
        Ok(Some(headers.packet_length(0)))
    }

    /// Makes the next packet of a response.
    ///
    /// A program revokes read access when it knows that the read is complete. A repeated response
    /// that is under way then ends silently, like a later duplicate ([`Self::duplicate_response`]).
    fn respond(
        &mut self,
        at: usize,
        resource: Resource,
        pending: Pending,
        access: &mut impl ResponderAccess,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        let Pending { start, next } = pending;
        let psn = resource.first.plus(next);
        let segment = resource.segments(self.configuration.mtu).get(start, next);
        let mut extensions = Extensions::NONE;
        if segment.place != Place::Middle {
            let syndrome = Syndrome::Ack(Credits::UNLIMITED);
            extensions.aeth = Some(Aeth {
                syndrome,
                msn: resource.msn,
            });
        }
        let operation = match (resource.response, segment.place) {
            (Response::Atomic(original), _) => {
                extensions.atomic_ack_eth = Some(AtomicAckEth { original });
                Operation::AtomicAcknowledge
            }
            (Response::Read(_) | Response::Done, Place::First) => Operation::ReadResponseFirst,
            (Response::Read(_) | Response::Done, Place::Middle) => Operation::ReadResponseMiddle,
            (Response::Read(_) | Response::Done, Place::Last) => Operation::ReadResponseLast,
            (Response::Read(_) | Response::Done, Place::Only) => Operation::ReadResponseOnly,
        };
        let headers = self.headers(operation, psn, extensions);
        let payload = headers.emit_around(segment.length as usize, buffer)?;
        if let (Response::Read(region), false) = (resource.response, payload.is_empty()) {
            let address = region.address.wrapping_add(segment.offset.into());
            let piece = Region {
                address,
                length: segment.length,
                ..region
            };
            if let Err(error) = access.read(piece, payload) {
                return match resource.answered {
                    Answered::NotYet => self.revoke(error.into(), psn, buffer),
                    Answered::Once => {
                        self.resources[at].pending = None;
                        self.poll_transmit(access, buffer)
                    }
                };
            }
        }
        let length = headers.packet_length(segment.length as usize);
        let kept = &mut self.resources[at];
        if next + 1 < resource.packets {
            kept.pending = Some(Pending {
                start,
                next: next + 1,
            });
        } else {
            kept.pending = None;
            kept.answered = Answered::Once;
            self.drop_implied_acknowledgement(psn);
        }
        Ok(Some(length))
    }

    /// Refuses the rest of a read whose access right was revoked during its first response, as the
    /// whole read would have been. Later requests can no longer be answered in order.
    fn revoke(
        &mut self,
        fault: Fault,
        psn: Psn,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        self.revoked = Some(fault);
        self.mode = Mode::Failed;
        self.acknowledgement = None;
        self.resources.clear();
        let code = match fault.consequence(fault::Responder::Reliable).answer {
            Answer::Nak(code) => code,
            Answer::Silence | Answer::RnrNak => NakCode::RemoteOperationalError,
        };
        let syndrome = Syndrome::Nak(code);
        let aeth = Some(Aeth {
            syndrome,
            msn: self.msn,
        });
        let extensions = Extensions {
            aeth,
            ..Extensions::NONE
        };
        let headers = self.headers(Operation::Acknowledge, psn, extensions);
        headers.emit_around(0, buffer)?;
        Ok(Some(headers.packet_length(0)))
    }

    /// Drops an acknowledgement of the same PSN as the last packet of a response, which implies it.
    fn drop_implied_acknowledgement(&mut self, psn: Psn) {
        let implied = |acknowledgement: &Acknowledgement| {
            acknowledgement.psn == psn && matches!(acknowledgement.syndrome, Syndrome::Ack(_))
        };
        self.acknowledgement = self.acknowledgement.filter(|kept| !implied(kept));
    }

    fn headers(&self, operation: Operation, psn: Psn, extensions: Extensions) -> Headers {
        let opcode = self.configuration.service.opcode(operation);
        let mut bth = Bth::new(opcode, self.configuration.destination, psn);
        bth.partition_key = self.configuration.partition_key;
        Headers { bth, extensions }
    }
}
