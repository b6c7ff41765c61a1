//! Atomics: fetch-and-add, compare-and-swap, and the atomic write.

use super::direct::{Direct, Span};
use super::{Job, Outcome};
use crate::memory::place::Piece;
use crate::path::{Direction, Peer, Way};
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::message::Request;
use crate::qp::send::SendQueue;
use crate::shm::section::Section;
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    pub(super) fn atomic(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if let Some(outcome) = self.hinders_fetch(send) {
            return outcome;
        }
        if request.length() < 8 {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        let operation = match self.operation(job) {
            Ok(operation) => operation,
            Err(outcome) => return outcome,
        };
        self.process.counters.shard().atomic_operations.add(1);
        let is_aligned = request.remote_address.is_multiple_of(8);
        if !send.has_outstanding() && is_aligned && self.fetch_allowed(send, job) {
            match self.perform(send, job, &operation) {
                Direct::Done => return Outcome::Done,
                Direct::Lost => return Outcome::Lost,
                Direct::Failed(status) => return Outcome::Failed(status),
                Direct::ThroughChannel => (),
            }
        }
        if self.responder(send, &job.channel.peer, job.psn).is_none() {
            return Outcome::Lost;
        }
        send.lane = 0;
        let remote = self.remote(request, 0, 8);
        let payload = operation.emit();
        self.ask(send, job, job.channel, Request::Atomic(remote), &payload, 8)
    }

    /// The operation with its operands; checks the local buffers.
    fn operation(&self, job: &Job<'_>) -> Result<Atomic, Outcome> {
        let request = job.request;
        let writes = request.opcode == IBV_WR_ATOMIC_WRITE;
        let section = job.channel.section(0);
        let local = if writes { 0 } else { IBV_ACCESS_LOCAL_WRITE };
        let runs = self.runs(&section, request, local)?;
        let mut operand = request.swap;
        if writes {
            let mut bytes = [0u8; 8];
            // SAFETY: 8 writable bytes.
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

    /// Does an atomic by ourselves, if the word can be reached.
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
        let target = right
            .granted
            .and_then(|granted| granted.place.pieces().next())
            .and_then(|piece| whole_word(peer, piece));
        let Some(target) = target else {
            return Direct::ThroughChannel;
        };
        let found = operation.perform(target).to_ne_bytes();
        if !self.has_held(&right) {
            return self.after_unheld_atomic(&section, send, job, access);
        }
        self.count_direct(8, false);
        // SAFETY: 8 readable bytes.
        if !writes && unsafe { runs.scatter(0, found.as_ptr(), 8) }.is_err() {
            return Direct::Failed(IBV_WC_LOC_PROT_ERR);
        }
        Direct::Done
    }
}

impl Qp {
    /// The right to the word ended while we did the atomic: before or after, nobody can say.
    #[cold]
    fn after_unheld_atomic(
        &self,
        section: &Section<'_>,
        send: &mut SendQueue,
        job: &Job<'_>,
        access: u32,
    ) -> Direct {
        let word = Span::whole(8, Direction::Store);
        match self.right(section, send, job, access, word) {
            // The key is as good as before, so the word was moved from under a thread that was stopped. To ask the
            // responder might do it twice; a failure is the one answer that is true.
            Ok(_) => Direct::Failed(IBV_WC_REM_OP_ERR),
            // As if the acknowledgement had been lost.
            Err(Direct::Lost) => Direct::Failed(IBV_WC_RETRY_EXC_ERR),
            // The responder refuses it.
            Err(direct) => direct,
        }
    }
}

/// The word behind a piece, if an atomic of this processor can be done on it.
fn whole_word(peer: &Peer, piece: Piece) -> Option<*mut u8> {
    match peer.way(piece, Direction::Store) {
        Way::Pointer(pointer) if piece.length() == 8 && (pointer as usize).is_multiple_of(8) => {
            Some(pointer)
        }
        _ => None,
    }
}
