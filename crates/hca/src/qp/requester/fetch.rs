//! What brings something back: RDMA reads and atomics; and flushes, which only wait.

use super::{Direct, Job, Outcome};
use crate::errno::Errno;
use crate::memory::place::Piece;
use crate::path::{Peer, Way};
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::message::*;
use crate::qp::send::SendQueue;
use crate::shm::ring::Header;
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    pub(super) fn read(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if send.max_rd_atomic == 0 {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let runs = match self.runs(request, IBV_ACCESS_LOCAL_WRITE) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().read_operations.add(1);
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(
            send,
            job,
            runs.total(),
            IBV_ACCESS_REMOTE_READ,
            |peer, granted| {
                // SAFETY: as for a write.
                unsafe { runs.load(peer, granted) }
            },
        );
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let header = Header {
            immediate: request.rkey,
            address: request.remote_address,
            word: runs.total(),
            ..self.header(READ, send, job)
        };
        self.ask(send, job, job.channel, header, &[], 0)
    }

    pub(super) fn flush(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(send, job, 1, IBV_ACCESS_FLUSH_GLOBAL, |_, _| Ok(()));
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let header = Header {
            immediate: job.request.rkey,
            address: job.request.remote_address,
            ..self.header(FLUSH, send, job)
        };
        self.ask(send, job, job.channel, header, &[], 0)
    }

    pub(super) fn atomic(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if send.max_rd_atomic == 0 {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let writes = request.opcode == IBV_WR_ATOMIC_WRITE;
        let runs = match self.runs(request, if writes { 0 } else { IBV_ACCESS_LOCAL_WRITE }) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        if runs.total() < 8 {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().atomic_operations.add(1);
        let mut operand = request.swap;
        if writes {
            let mut bytes = [0u8; 8];
            // SAFETY: 8 writable bytes, and the buffers hold at least 8.
            unsafe { runs.gather(0, bytes.as_mut_ptr(), 8) };
            operand = u64::from_ne_bytes(bytes);
        }
        let operation = Atomic {
            opcode: request.opcode,
            compare_add: request.compare_add,
            operand,
        };
        let right = if writes {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            IBV_ACCESS_REMOTE_ATOMIC
        };
        if !request.remote_address.is_multiple_of(8) {
            return self.violate(send, job, IBV_WC_REM_INV_REQ_ERR);
        }
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(send, job, 8, right, |peer, granted| {
            let Some(target) = granted
                .place
                .pieces()
                .next()
                .and_then(|piece| whole_word(peer, piece))
            else {
                return Err(Errno::EOPNOTSUPP);
            };
            let found = operation.perform(target).to_ne_bytes();
            if !writes {
                // SAFETY: 8 readable bytes; the buffers are registered for writing.
                unsafe { runs.scatter(0, found.as_ptr(), 8) };
            }
            Ok(())
        });
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let mut payload = [0u8; 24];
        payload[..8].copy_from_slice(&operation.compare_add.to_le_bytes());
        payload[8..16].copy_from_slice(&operation.operand.to_le_bytes());
        payload[16..].copy_from_slice(&operation.code().to_le_bytes());
        let header = Header {
            immediate: request.rkey,
            address: request.remote_address,
            ..self.header(ATOMIC, send, job)
        };
        self.ask(send, job, job.channel, header, &payload, 8)
    }
}

/// The word behind a piece, if an atomic of this processor can be done on it.
fn whole_word(peer: &Peer, piece: Piece) -> Option<*mut u8> {
    match peer.way(piece) {
        Way::Pointer(pointer) if piece.length() == 8 && (pointer as usize).is_multiple_of(8) => {
            Some(pointer)
        }
        _ => None,
    }
}
