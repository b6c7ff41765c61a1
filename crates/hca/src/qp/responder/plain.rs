//! Fast path for plain messages: whole and in the payload, over an established reliable connection,
//! for a posted receive of one buffer in the arena with enough space. Most messages are of this
//! kind, and the general path ([`super::inbound_message`]) moves the taken receive around, at about
//! the cost of copying the message's bytes.
//!
//! The fast path never refuses a message: one that is not plain in every respect is left unchanged
//! for the general path.

use super::Call;
use crate::cq::{Completion, Taking};
use crate::process::{Inbound, Process, QpCache};
use crate::qp::ring_message::{Plain, Route};
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::{Receive, ReceiveRing};
use crate::srq::Srq;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::resolve::{Piece, grant};
use verbena_hca_os::copy;
use verbena_hca_shm::context_table::KeyRecord;
use verbena_hca_shm::ring::Record;
use verbena_hca_shm::section::Section;

/// Serves a record that holds a plain message. Calls `acknowledge` when the bytes are in place and
/// before the receive completes. Returns false, without effect, if the record must take the general
/// path.
#[inline]
pub fn serve_plain(
    process: &Process,
    inbound: &Arc<Inbound>,
    qp_cache: &mut QpCache,
    record: &Record,
    acknowledge: impl FnOnce(),
) -> bool {
    let Some(message) = Plain::parse(&record.header) else {
        return false;
    };
    let call = Call {
        process,
        inbound,
        record,
        route: Route::of(&record.header),
    };
    qp_cache
        .find(&process.queue_pairs, call.route.destination.number)
        .is_some_and(|queue_pair| call.serve_plain(queue_pair, message, acknowledge))
}

impl Call<'_> {
    #[inline]
    fn serve_plain(&self, queue_pair: &Qp, message: Plain, acknowledge: impl FnOnce()) -> bool {
        if !queue_pair.receives_plainly
            || queue_pair.state() == IBV_QPS_RTR
            || !self.is_from_live_requester()
        {
            return false;
        }
        // Held until the completion is pushed, so that no later receive of the queue completes
        // earlier, successfully or flushed, and a reset finds it.
        let mut guard = queue_pair.lock_receive();
        // Checked under the lock that a reset holds while it empties the queue.
        if !queue_pair.is_connected_to(&self.route)
            || !guard.message_state.is_plain(self.route.source.incarnation)
        {
            return false;
        }
        let plain = PlainMessage {
            source: self.route.source.number,
            payload: self.record.payload,
            total: message.total,
            solicited: message.solicited,
            immediate: None,
        };
        let Some(wr_id) = place(self.inbound, queue_pair, &mut guard, &plain) else {
            return false;
        };
        acknowledge();
        complete(queue_pair, wr_id, &plain, None);
        true
    }
}

/// A plain message that has arrived.
#[derive(Clone, Copy)]
pub(super) struct PlainMessage {
    /// Number of the queue pair that sent it.
    pub source: u32,
    /// First of its bytes, which another process may change.
    pub payload: *const u8,
    /// Their number.
    pub total: u32,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
    /// Immediate data in network order.
    pub immediate: Option<u32>,
}

/// Stores a plain message in the buffer at the front of the receive queue, whose lock is held,
/// removes the receive and counts it. Returns its `wr_id`, or None, without effect, if the receive
/// is not plain.
#[inline(always)]
pub(super) fn place(
    inbound: &Inbound,
    queue_pair: &Qp,
    receive: &mut ReceiveQueue,
    message: &PlainMessage,
) -> Option<u64> {
    let (payload, total) = (message.payload, message.total);
    let known_range = &mut receive.known_range;
    match queue_pair.srq.as_deref() {
        None => place_in(
            &mut receive.ring,
            inbound,
            queue_pair,
            known_range,
            payload,
            total,
        ),
        Some(srq) => place_shared(srq, inbound, queue_pair, known_range, payload, total),
    }
}

// Six arguments stay in registers.
#[inline(never)]
fn place_shared(
    srq: &Srq,
    inbound: &Inbound,
    queue_pair: &Qp,
    known_range: &mut KnownRange,
    payload: *const u8,
    total: u32,
) -> Option<u64> {
    let mut state = srq.lock_inlined();
    let ring = &mut state.ring;
    let wr_id = place_in(ring, inbound, queue_pair, known_range, payload, total)?;
    srq.compare_with_limit(state);
    Some(wr_id)
}

#[inline(always)]
fn place_in(
    ring: &mut ReceiveRing,
    inbound: &Inbound,
    queue_pair: &Qp,
    known_range: &mut KnownRange,
    payload: *const u8,
    total: u32,
) -> Option<u64> {
    let next = ring.front()?;
    let wr_id = next.wr_id;
    if !store(inbound, queue_pair, next, known_range, payload, total) {
        return None;
    }
    ring.remove_front();
    let counters = queue_pair.process.counters.shard();
    counters.receive_operations.add(1);
    counters.receive_bytes.add(total.into());
    Some(wr_id)
}

/// Completes the receive `wr_id` of a plain message, which is acknowledged.
#[inline(always)]
pub(super) fn complete(
    queue_pair: &Qp,
    wr_id: u64,
    message: &PlainMessage,
    taking: Option<&mut Taking<'_, Process>>,
) {
    let mut wc = ibv_wc {
        wr_id,
        status: IBV_WC_SUCCESS,
        opcode: IBV_WC_RECV,
        byte_len: message.total,
        qp_num: queue_pair.number,
        src_qp: message.source,
        slid: crate::device::LID,
        ..ibv_wc::default()
    };
    if let Some(imm_data) = message.immediate {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm = ibv_wc_imm { imm_data };
    }
    if let Some(cq) = &queue_pair.recv_cq {
        cq.push_or_take(Completion::received(wc), message.solicited, taking);
    }
}

/// Stores the bytes at the beginning of the receive's buffer, with the checks of any receive
/// buffer. Returns false, without effect, if the receive is not plain.
#[inline(always)]
fn store(
    inbound: &Inbound,
    queue_pair: &Qp,
    receive: &Receive,
    known_range: &mut KnownRange,
    payload: *const u8,
    total: u32,
) -> bool {
    let Some(buffer) = receive.sges.sole() else {
        return false;
    };
    if total > buffer.length {
        return false;
    }
    if total == 0 {
        return true;
    }
    let Some(arena) = queue_pair.memory.arena() else {
        return false;
    };
    let section = inbound.section(0);
    let record = queue_pair.memory.keys().record(buffer.lkey);
    let (address, length) = (buffer.addr, buffer.length.into());
    let found = known_range
        .find(&section, record, buffer.lkey, address, length)
        .or_else(|| grant_beginning(&section, record, buffer, total, known_range));
    let Some(offset) = found else {
        return false;
    };
    // SAFETY: the payload holds as many bytes, checked by ring or lane; a granted range lies inside
    // the arena.
    unsafe { copy::ordered_copy(payload, arena.pointer(offset), total as usize) };
    true
}

/// Returns the offset in the arena of a buffer whose first `total` bytes lie there in one piece, if
/// access to the whole buffer is granted, and notes the range.
#[cold]
#[inline(never)]
fn grant_beginning(
    section: &Section<'_>,
    record: &KeyRecord,
    buffer: &ibv_sge,
    total: u32,
    known_range: &mut KnownRange,
) -> Option<u64> {
    let (address, length) = (buffer.addr, buffer.length.into());
    let request = known_range.request(buffer.lkey);
    let granted = grant(section, record, request, address, length).ok()?;
    let Piece::Arena { offset, .. } = granted.part(0, total.into()).sole()? else {
        return None;
    };
    known_range.note(section, record, buffer.lkey, address, length);
    Some(offset)
}
