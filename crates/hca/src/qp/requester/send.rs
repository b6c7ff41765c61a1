//! Messages: by value through the channel, or by reference where the responder can fetch them.

use super::{Job, Outcome, solicited};
use crate::memory::place::{Claim, Piece, grant};
use crate::memory::transfer::Runs;
use crate::path::{PULL_ANY, PULL_ARENA};
use crate::process::link::{Acknowledge, Outbound};
use crate::qp::Qp;
use crate::qp::message::*;
use crate::qp::send::{SendQueue, SendRequest};
use crate::shm::channel::MAX_PAYLOAD;
use crate::shm::ring::Header;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

/// Messages up to this are copied through the channel in any case: they take one or two cache lines of it, and a message
/// that is fetched takes one for where it is.
const COPIED: u64 = 64;
/// The same where the responder reaches the buffers only through the kernel, which costs it more than two copies.
const COPIED_RATHER_THAN_ASKING: u64 = 4096;

impl Qp {
    pub(super) fn send_message(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        progress: &mut u64,
    ) -> Outcome {
        let request = job.request;
        let (runs, total) = match self.payload(request) {
            Ok(payload) => payload,
            Err(outcome) => return outcome,
        };
        let record = match self.responder(send, &job.channel.peer) {
            Ok(record) => record,
            Err(outcome) => return outcome,
        };
        // The receive queue of an XRC message belongs to whoever owns the SRQ, perhaps a third process.
        let third;
        let via = if self.kind == IBV_QPT_XRC_SEND {
            let Some(owner) = self.process.outbound_to_number(request.srq) else {
                return Outcome::Seek(request.srq);
            };
            third = owner;
            &third
        } else {
            job.channel
        };
        let domain = record.xrcd.load(Ordering::Relaxed) as u32;
        let variant = match request.opcode {
            IBV_WR_SEND_WITH_IMM => IMMEDIATE,
            IBV_WR_SEND_WITH_INV => INVALIDATE,
            _ => 0,
        };
        let header = Header {
            flags: variant | solicited(request),
            immediate: request.immediate,
            address: u64::from(request.srq),
            word: total | u64::from(domain) << 32,
            ..self.header(SEND, send, job)
        };
        if self.is_to_be_fetched(via, request, total) {
            return self.send_pull(send, job, via, header, total);
        }
        self.send_copied(send, job, via, header, &runs, progress)
    }

    /// Whether the responder can fetch the buffers itself, and that is worth it.
    fn is_to_be_fetched(&self, via: &Outbound, request: &SendRequest<'_>, total: u64) -> bool {
        if total <= COPIED
            || request.flags & IBV_SEND_INLINE != 0
            || request.sges.len() * Source::LENGTH > MAX_PAYLOAD
        {
            return false;
        }
        if via.can_pull & PULL_ANY != 0 && total > COPIED_RATHER_THAN_ASKING {
            return true;
        }
        via.can_pull & PULL_ARENA != 0 && request.sges.iter().all(|sge| self.is_in_arena(sge))
    }

    /// Whether all of a local buffer lies in shared memory.
    fn is_in_arena(&self, sge: &ibv_sge) -> bool {
        let claim = Claim {
            key: sge.lkey,
            pd: self.pd_number(),
            queue_pair: 0,
            access: 0,
        };
        let record = self.process.keys.record(sge.lkey);
        grant(record, claim, sge.addr, u64::from(sge.length)).is_ok_and(|place| {
            place
                .pieces()
                .all(|piece| !matches!(piece, Piece::Address { .. }))
        })
    }

    fn send_pull(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        total: u64,
    ) -> Outcome {
        let sges = job.request.sges;
        let header = Header {
            kind: SEND_PULL,
            flags: header.flags | FIRST | LAST,
            ..header
        };
        let length = sges.len() * Source::LENGTH;
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = via.push(header, length, acknowledge, |target| {
            for (place, sge) in sges.iter().enumerate() {
                let source = Source {
                    address: sge.addr,
                    length: sge.length,
                    key: sge.lkey,
                };
                let bytes = source.emit();
                // SAFETY: the ring gave room for `length` bytes, and `place` is below the number of buffers.
                unsafe {
                    target
                        .add(place * Source::LENGTH)
                        .copy_from_nonoverlapping(bytes.as_ptr(), Source::LENGTH);
                }
            }
        });
        self.pushed(via, pushed, total)
    }

    /// Copies a message into the channel, in as many records as it takes.
    pub(super) fn send_copied(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        runs: &Runs,
        progress: &mut u64,
    ) -> Outcome {
        let total = runs.total();
        loop {
            let length = (total - *progress).min(MAX_PAYLOAD as u64) as usize;
            let first = if *progress == 0 { FIRST } else { 0 };
            let is_last = *progress + length as u64 == total;
            let last = if is_last { LAST } else { 0 };
            let record = Header {
                flags: header.flags | first | last,
                ..header
            };
            // Parts of a write say where each goes.
            let record = if header.kind == WRITE {
                Header {
                    address: header.address + *progress,
                    ..record
                }
            } else {
                record
            };
            let acknowledge = if is_last {
                Acknowledge::Request(self, job.index, send.epoch)
            } else {
                Acknowledge::Nothing
            };
            let offset = *progress as usize;
            let pushed = via.push(record, length, acknowledge, |target| {
                // SAFETY: the ring gave room for `length` bytes; the buffers are registered or inline.
                unsafe { runs.gather(offset, target, length) }
            });
            match self.pushed(via, pushed, length as u64) {
                Outcome::Sent if !is_last => *progress += length as u64,
                outcome => return outcome,
            }
        }
    }
}
