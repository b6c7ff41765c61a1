//! Answers from the responder: NAKs, read data, results of atomics.

use crate::capture;
use crate::process::Outbound;
use crate::qp::Qp;
use crate::qp::ring_message::{Answer, Nak, Route};
use crate::qp::send::SendQueue;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_shm::ring::Record;
use verbena_transport::fault;
use verbena_wire::RnrTimer;

impl Qp {
    /// Handles an answer from the responder.
    pub(crate) fn answered(self: &Arc<Qp>, from: &Arc<Outbound>, record: &Record) {
        let mut send = self.lock_send();
        let route = Route::of(&record.header);
        // Answers from another process than the connected peer can only concern an XRC request.
        // Answers to an earlier incarnation of this queue pair are ignored.
        let expected = send
            .channel
            .as_ref()
            .is_some_and(|channel| Arc::ptr_eq(channel, from));
        if route.destination.incarnation != self.incarnation()
            || !(expected || self.kind == IBV_QPT_XRC_SEND)
            || self.kind == IBV_QPT_UC
        {
            return;
        }
        let psn = route.psn;
        match Answer::parse(&record.header) {
            Some(Answer::Nak(nak)) => self.refused(&mut send, psn, nak),
            Some(Answer::ReadData(offset)) => {
                let length = record.header.length.into();
                self.take_answer(from, &mut send, psn, offset, record.payload, length);
            }
            Some(Answer::Atomic(found)) => {
                let found = found.to_ne_bytes();
                self.take_answer(from, &mut send, psn, 0, found.as_ptr(), 8);
            }
            // From a newer peer, or garbage: not an answer to any of our requests.
            None => (),
        }
    }

    fn refused(self: &Arc<Qp>, send: &mut SendQueue, psn: u32, nak: Nak) {
        if capture::is_on() {
            self.capture_refused(send, psn, nak);
        }
        let (answer, timer) = match nak {
            Nak::ReceiverNotReady(timer) => (fault::Answer::RnrNak, timer),
            Nak::NoAnswer => (fault::Answer::Silence, 0),
            Nak::Refused(code) => (fault::Answer::Nak(code), 0),
            Nak::SourceProtection => return self.failed(send, psn, IBV_WC_LOC_PROT_ERR),
        };
        self.not_executed(send, psn, answer, RnrTimer::from_low_bits(timer));
    }

    /// Stores part of an answer; completes the request when the answer is complete.
    fn take_answer(
        self: &Arc<Qp>,
        from: &Outbound,
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
        let is_read = request.opcode == IBV_WR_RDMA_READ;
        let total = match request.opcode {
            IBV_WR_RDMA_READ => request.length(),
            IBV_WR_FLUSH => 0,
            _ => 8,
        };
        // Not trusted: an answer that does not continue the previous one, or is too long, is
        // ignored.
        if offset != one.progress.bytes && is_read {
            return;
        }
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return;
        }
        if !matches!(request.opcode, IBV_WR_ATOMIC_WRITE | IBV_WR_FLUSH) {
            let section = from.section(0);
            let placed = self
                .runs(&section, &request, IBV_ACCESS_LOCAL_WRITE)
                // SAFETY: the record holds `length` bytes, checked by the ring.
                .map(|runs| unsafe { runs.scatter(offset as usize, payload, length as usize) });
            drop(section);
            if !matches!(placed, Ok(Ok(()))) {
                self.failed(send, psn, IBV_WC_LOC_PROT_ERR);
                return;
            }
        }
        let Some(one) = Qp::awaiting(send, psn) else {
            return;
        };
        one.progress.bytes = offset + length;
        if is_read {
            let counters = self.process.counters.shard();
            counters.operation_bytes.add(length);
            counters.ring_path_bytes.add(length);
        }
        if one.progress.bytes == total {
            self.answer_is_whole(send, psn);
        }
    }
}
