//! Handling of acknowledgements and responses (specification 9.7.5).

use verbena_wire::Psn;
use verbena_wire::aeth::{Aeth, Syndrome};
use verbena_wire::opcode::{Kind, Place};
use verbena_wire::packet::Packet;

use super::{Mode, Requester};
use crate::access::ReliableRequesterAccess;
use crate::completion::Status;
use crate::disposition::{Disposition, Dropped};
use crate::fault;
use crate::request::{Answer, Operation, SendRequest};
use crate::retry::Reaction;
use crate::time::Instant;

/// Whether an acknowledgement passes over a request whose response is missing: an implied NAK
/// (9.7.5.1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    Nothing,
    AResponse,
}

impl Requester {
    /// Handles a response packet.
    pub fn handle(
        &mut self,
        packet: &Packet<'_>,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
    ) -> Disposition {
        let bth = &packet.headers.bth;
        let operation = bth.opcode.operation();
        if self.mode == Mode::Failed {
            return Disposition::Dropped(Dropped::State);
        }
        if bth.opcode.service() != self.service() || operation.is_request() {
            return Disposition::Dropped(Dropped::Service);
        }
        if !bth.partition_key.admits(self.configuration.partition_key) {
            return Disposition::Dropped(Dropped::PartitionKey);
        }
        // Only outstanding PSNs can be answered. An earlier PSN was answered: this is a duplicate
        // or ghost acknowledgement.
        if bth.psn.precedes(self.oldest) {
            return Disposition::Duplicate;
        }
        if !bth.psn.precedes(self.limit) {
            return Disposition::Dropped(Dropped::Window);
        }
        let aeth = packet.headers.extensions.aeth;
        match operation.kind() {
            Kind::Acknowledge => match aeth {
                Some(aeth) => self.acknowledge(aeth, bth.psn, now, access),
                None => Disposition::Dropped(Dropped::Service),
            },
            Kind::ReadResponse | Kind::AtomicAcknowledge => self.response(packet, now, access),
            _ => Disposition::Dropped(Dropped::Service),
        }
    }

    fn acknowledge(
        &mut self,
        aeth: Aeth,
        psn: Psn,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
    ) -> Disposition {
        match aeth.syndrome {
            Syndrome::Ack(_) => match self.acknowledged_before(psn.next(), now, access) {
                Passed::Nothing => {
                    self.judge_peer(now);
                    self.accepted()
                }
                Passed::AResponse => self.recover(now, access),
            },
            Syndrome::RnrNak(timer) => match self.acknowledged_before(psn, now, access) {
                Passed::Nothing if self.mode == Mode::Failed => Disposition::Failed,
                Passed::Nothing if !self.awaits_receiver(psn) => Disposition::Duplicate,
                Passed::Nothing => match self.retries.react(fault::Answer::RnrNak) {
                    Reaction::Fail(status) => self.refused(status, access),
                    Reaction::Wait | Reaction::Repeat => self.receiver_not_ready(timer, now),
                },
                Passed::AResponse => self.recover(now, access),
            },
            Syndrome::Nak(code) => {
                match (
                    self.acknowledged_before(psn, now, access),
                    self.retries.react(fault::Answer::Nak(code)),
                ) {
                    (Passed::Nothing, Reaction::Fail(status)) => self.refused(status, access),
                    _ => self.recover(now, access),
                }
            }
        }
    }

    /// Records that every packet before `end` has arrived; requests that are answered by data end
    /// only with their data.
    fn acknowledged_before(
        &mut self,
        end: Psn,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
    ) -> Passed {
        let mut moved = false;
        let mut passed = Passed::Nothing;
        while self.started > 0 {
            let Some(oldest) = access.sequence(0) else {
                break;
            };
            if !oldest.first.plus(self.done).precedes(end) {
                break;
            }
            if oldest.answer == Answer::Response {
                passed = Passed::AResponse;
                break;
            }
            moved = true;
            if end.precedes(oldest.end()) {
                self.done = end.since(oldest.first).unsigned_abs();
                break;
            }
            self.finish(access);
        }
        if moved {
            self.progress(now, access);
        }
        passed
    }

    /// Handles a packet of a read's response, or an atomic's result.
    fn response(
        &mut self,
        packet: &Packet<'_>,
        now: Instant,
        access: &mut impl ReliableRequesterAccess,
    ) -> Disposition {
        let psn = packet.headers.bth.psn;
        // Responses arrive in order, so a response acknowledges all packets before it.
        if self.acknowledged_before(psn, now, access) == Passed::AResponse {
            return self.recover(now, access);
        }
        if self.mode == Mode::Failed {
            return Disposition::Failed;
        }
        let oldest = access.request(0).zip(access.sequence(0));
        let Some((request, sequence)) = oldest.filter(|_| self.started > 0) else {
            return Disposition::Dropped(Dropped::Window);
        };
        if sequence.first.plus(self.done) != psn {
            return Disposition::Duplicate;
        }
        let is_last = self.done + 1 == sequence.packets;
        let mut result = [0; 8];
        let expected = self.expected_response(packet, &request, is_last, &mut result);
        let Some((offset, bytes)) = expected else {
            return self.refused(Status::BadResponse, access);
        };
        if !bytes.is_empty() && access.scatter(0, offset, bytes).is_err() {
            return self.refused(Status::LocalProtection, access);
        }
        self.done += 1;
        if is_last {
            self.finish(access);
        }
        self.progress(now, access);
        self.judge_peer(now);
        self.accepted()
    }

    /// Returns offset and bytes of a response if it is the next response packet to the oldest
    /// request; `None` if it is invalid.
    ///
    /// A read may have been retransmitted from its middle, so First and Middle are both valid for a
    /// packet that is not the last, Last and Only for the last.
    fn expected_response<'a>(
        &self,
        packet: &Packet<'a>,
        request: &SendRequest,
        is_last: bool,
        result: &'a mut [u8; 8],
    ) -> Option<(u32, &'a [u8])> {
        let operation = packet.headers.bth.opcode.operation();
        let extensions = &packet.headers.extensions;
        if extensions
            .aeth
            .is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack(_)))
        {
            return None;
        }
        match (request.operation, operation.kind()) {
            (Operation::Read { .. }, Kind::ReadResponse) => {
                let segment = self.segments(request).get(0, self.done);
                let ends = matches!(operation.place(), Place::Last | Place::Only);
                let fits = ends == is_last && packet.payload.len() == segment.length as usize;
                fits.then_some((segment.offset, packet.payload))
            }
            (Operation::Flush { .. } | Operation::AtomicWrite { .. }, Kind::ReadResponse) => {
                let empty = operation.place() == Place::Only && packet.payload.is_empty();
                empty.then_some((0, packet.payload))
            }
            (Operation::Atomic { .. }, Kind::AtomicAcknowledge) => {
                *result = extensions.atomic_ack_eth?.original.to_ne_bytes();
                Some((0, result))
            }
            _ => None,
        }
    }

    pub(super) fn refused(
        &mut self,
        status: Status,
        access: &mut impl ReliableRequesterAccess,
    ) -> Disposition {
        if self.mode != Mode::Failed {
            self.fail(status, access);
        }
        Disposition::Failed
    }

    fn accepted(&self) -> Disposition {
        match self.mode {
            Mode::Failed => Disposition::Failed,
            Mode::Sending => Disposition::Accepted,
        }
    }
}
