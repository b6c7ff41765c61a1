//! What comes back: refusals, read data, results of atomics.

use crate::process::link::Outbound;
use crate::qp::Qp;
use crate::qp::message::*;
use crate::qp::send::SendQueue;
use crate::shm::ring::Record;
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    /// An answer from the responder.
    pub(crate) fn answered(self: &Arc<Qp>, from: &Arc<Outbound>, record: &Record) {
        let mut send = self.lock_send();
        let header = &record.header;
        // Of answers from anybody but whom we asked, only those about an XRC queue can be ours.
        let expected = send
            .channel
            .as_ref()
            .is_some_and(|channel| Arc::ptr_eq(channel, from));
        if !expected && self.kind != IBV_QPT_XRC_SEND {
            return;
        }
        match header.kind {
            NAK => {
                let (syndrome, timer) = (header.immediate & 0xff, (header.immediate >> 8) as u8);
                match syndrome {
                    RECEIVER_NOT_READY => self.not_ready(&mut send, header.psn, timer),
                    LOST => self.lost(&mut send, header.psn),
                    INVALID_REQUEST => self.failed(&mut send, header.psn, IBV_WC_REM_INV_REQ_ERR),
                    REMOTE_ACCESS => self.failed(&mut send, header.psn, IBV_WC_REM_ACCESS_ERR),
                    _ => self.failed(&mut send, header.psn, IBV_WC_REM_OP_ERR),
                }
            }
            READ_DATA => {
                let length = u64::from(header.length);
                self.take_answer(&mut send, header.psn, header.word, record.payload, length);
            }
            ATOMIC_RESULT => {
                let found = header.word.to_ne_bytes();
                self.take_answer(&mut send, header.psn, 0, found.as_ptr(), 8);
            }
            // From a newer peer, or garbage: it answers nothing that we asked.
            _ => (),
        }
    }

    /// Places part of an answer; completes the request when it is whole.
    fn take_answer(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        psn: u32,
        offset: u64,
        payload: *const u8,
        length: u64,
    ) {
        let Some(one) = Qp::awaiting(send, psn) else {
            return;
        };
        let request = one.request();
        let total = match request.opcode {
            IBV_WR_RDMA_READ => request.sges.iter().map(|sge| u64::from(sge.length)).sum(),
            IBV_WR_FLUSH => 0,
            _ => 8,
        };
        // The peer's words: an answer that does not continue the last one, or is too long, is none.
        if offset != one.progress && request.opcode == IBV_WR_RDMA_READ {
            return;
        }
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return;
        }
        if request.opcode != IBV_WR_ATOMIC_WRITE {
            match self.runs(&request, IBV_ACCESS_LOCAL_WRITE) {
                // SAFETY: the record holds `length` bytes (checked by the ring); the buffers are registered.
                Ok(runs) => unsafe { runs.scatter(offset as usize, payload, length as usize) },
                Err(_) => {
                    self.failed(send, psn, IBV_WC_LOC_PROT_ERR);
                    return;
                }
            }
        }
        let Some(one) = Qp::awaiting(send, psn) else {
            return;
        };
        one.progress = offset + length;
        if one.progress == total {
            self.answer_is_whole(send, psn);
        }
    }
}
