//! Atomics: fetch-and-add, compare-and-swap, and atomic write.

use super::Job;
use super::direct::{Direct, Right, Span};
use super::outcome::Outcome;
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::ring_message::Request;
use crate::qp::send::SendQueue;
use crate::qp::terms::status_code;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::peer::{AccessMethod, Direction, Peer};
use verbena_hca_memory::resolve::Piece;
use verbena_hca_shm::section::Section;
use verbena_transport::assembly;
use verbena_transport::request::check_word;

impl Qp {
    pub(super) fn atomic(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if let Some(outcome) = self.hinders_fetch(send) {
            return outcome;
        }
        if let Err(status) = check_word(request.length()) {
            return Outcome::Failed(status_code(status));
        }
        let operation = match self.operation(job) {
            Ok(operation) => operation,
            Err(outcome) => return outcome,
        };
        self.process.counters.shard().atomic_operations.add(1);
        let is_aligned = assembly::aligned(request.remote_address).is_ok();
        if !send.has_outstanding() && is_aligned && self.fetch_allowed(send, job) {
            match self.perform(send, job, &operation) {
                Direct::Done => return Outcome::Done,
                Direct::NoAnswer => return Outcome::NoAnswer,
                Direct::Failed(status) => return Outcome::Failed(status),
                Direct::ThroughChannel => (),
            }
        }
        if self.responder(send, &job.channel.peer, job.psn).is_none() {
            return Outcome::NoAnswer;
        }
        send.lane = 0;
        let remote = self.remote(request, 0, 8);
        let payload = operation.emit();
        self.ask(send, job, job.channel, Request::Atomic(remote), &payload, 8)
    }

    /// Returns the operation with its operands, after checking the local buffers.
    fn operation(&self, job: &Job<'_>) -> Result<Atomic, Outcome> {
        let request = job.request;
        let writes = request.opcode == IBV_WR_ATOMIC_WRITE;
        let section = job.channel.section(0);
        let local = if writes { 0 } else { IBV_ACCESS_LOCAL_WRITE };
        let runs = self.runs(&section, request, local)?;
        let mut operand = request.swap;
        if writes {
            let mut bytes = [0u8; 8];
            // SAFETY: `bytes` has 8 writable bytes.
            unsafe { runs.gather(0, bytes.as_mut_ptr(), 8) }
                .map_err(|_| Outcome::Failed(IBV_WC_LOC_PROT_ERR))?;
            operand = u64::from_ne_bytes(bytes);
        }
        Ok(Atomic {
            opcode: request.opcode,
            compare_add: request.compare_add,
            operand,
        })
    }

    /// Performs an atomic directly, if the word can be reached.
    fn perform(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>, operation: &Atomic) -> Direct {
        let writes = operation.opcode == IBV_WR_ATOMIC_WRITE;
        let (access, local) = if writes {
            (IBV_ACCESS_REMOTE_WRITE, 0)
        } else {
            (IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE)
        };
        let section = job.channel.section(job.request.rkey);
        let Ok(runs) = self.runs(&section, job.request, local) else {
            return Direct::Failed(IBV_WC_LOC_PROT_ERR);
        };
        let word = Span::whole(8, Direction::Store);
        let right = match self.right(&section, send, job, access, word) {
            Ok(right) => right,
            Err(direct) => return direct,
        };
        let peer = &job.channel.peer;
        let piece = right
            .granted
            .and_then(|granted| granted.range.pieces().next());
        let Some((target, offset)) = piece.and_then(|piece| whole_word(peer, piece)) else {
            return Direct::ThroughChannel;
        };
        section.announce(offset);
        if !self.has_held(&right) {
            section.withdraw();
            return Direct::ThroughChannel;
        }
        let found = operation.perform(target);
        let outcome = match self.has_held(&right) {
            true => Direct::Done,
            false => self.after_unheld_atomic(&section, send, job, &right, found),
        };
        section.withdraw();
        if outcome != Direct::Done {
            return outcome;
        }
        self.count_direct(8, false);
        let found = found.to_ne_bytes();
        // SAFETY: `found` has 8 readable bytes.
        if !writes && unsafe { runs.scatter(0, found.as_ptr(), 8) }.is_err() {
            return Direct::Failed(IBV_WC_LOC_PROT_ERR);
        }
        Direct::Done
    }
}

impl Qp {
    /// Decides whether an atomic counts that this thread performed after it was stopped, when the
    /// owner of the memory did not wait for it.
    #[cold]
    fn after_unheld_atomic(
        &self,
        section: &Section<'_>,
        send: &mut SendQueue,
        job: &Job<'_>,
        right: &Right<'_>,
        found: u64,
    ) -> Direct {
        if section.was_void(found) {
            // Performed at the word's location before it was moved, so without effect.
            return Direct::ThroughChannel;
        }
        if self.is_still_granted(section, send, job, right) {
            return Direct::Done;
        }
        match self.responder(send, &job.channel.peer, job.psn) {
            // The right has ended, and the responder says so.
            Some(_) => Direct::ThroughChannel,
            // As if the acknowledgement had been lost.
            None => Direct::Failed(IBV_WC_RETRY_EXC_ERR),
        }
    }
}

/// Returns the word of a piece and its offset in the owner's arena, if this processor can perform
/// an atomic on it.
fn whole_word(peer: &Peer, piece: Piece) -> Option<(*mut u8, u64)> {
    let Piece::Arena { offset, length: 8 } = piece else {
        return None;
    };
    match peer.access_method(piece, Direction::Store) {
        AccessMethod::Pointer(pointer) if (pointer as usize).is_multiple_of(8) => {
            Some((pointer, offset))
        }
        _ => None,
    }
}
