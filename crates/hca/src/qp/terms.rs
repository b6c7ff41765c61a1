//! Converts between the numbers of the C interface and the types of the transport's rules
//! ([`verbena_transport`]).

use verbena_abi::*;
use verbena_transport::Access;
use verbena_transport::completion::Status;
use verbena_transport::fault::Event;
use verbena_transport::request::{Answer, offers};
use verbena_transport::state::{Kind, Sends, State};
use verbena_wire::opcode;

/// Returns a queue pair's type.
#[inline]
pub(super) fn kind_of(kind: ibv_qp_type) -> Option<Kind> {
    Some(match kind {
        IBV_QPT_RC => Kind::Rc,
        IBV_QPT_UC => Kind::Uc,
        IBV_QPT_UD => Kind::Ud,
        IBV_QPT_XRC_SEND => Kind::XrcInitiator,
        IBV_QPT_XRC_RECV => Kind::XrcTarget,
        _ => return None,
    })
}

/// Returns a state by its number, in which a word of shared memory may have other bits above.
#[inline]
pub(super) fn state_of(word: u32) -> State {
    State::from_code(word & 0xff).unwrap_or(State::Reset)
}

/// Returns how posted send requests are treated in a state. Most are posted in RTS.
#[inline]
pub(super) fn sends_in(state: ibv_qp_state) -> Sends {
    match state {
        IBV_QPS_RTS => Sends::Start,
        other => state_of(other).sends(),
    }
}

/// Returns the work requests (IBV_WR_*) that a queue pair of this type accepts, a bit for each.
///
/// The interface allows keys to be invalidated by all queue pairs that have writes, also by UC,
/// whose service has no packet for it: then the request fails.
pub(super) fn accepted_requests(kind: ibv_qp_type) -> u32 {
    let Some(kind) = kind_of(kind) else { return 0 };
    let accepts = |opcode: &ibv_wr_opcode| match (*opcode, request_kind(*opcode)) {
        (IBV_WR_LOCAL_INV | IBV_WR_BIND_MW | IBV_WR_SEND_WITH_INV, _) => {
            offers(kind, opcode::Kind::Write)
        }
        (_, Some(request)) => offers(kind, request),
        (_, None) => false,
    };
    (0..u32::BITS)
        .filter(accepts)
        .fold(0, |bits, opcode| bits | 1 << opcode)
}

/// Returns the kind of a request's packets; None for a local request.
#[inline]
pub(super) fn request_kind(opcode: ibv_wr_opcode) -> Option<opcode::Kind> {
    Some(match opcode {
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV => opcode::Kind::Send,
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => opcode::Kind::Write,
        IBV_WR_RDMA_READ => opcode::Kind::Read,
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => opcode::Kind::Atomic,
        IBV_WR_ATOMIC_WRITE => opcode::Kind::AtomicWrite,
        IBV_WR_FLUSH => opcode::Kind::Flush,
        _ => return None,
    })
}

/// Returns how the responder answers a request.
#[inline]
pub(super) fn answer_to(opcode: ibv_wr_opcode) -> Answer {
    match request_kind(opcode) {
        Some(kind) => Answer::to(kind),
        None => Answer::Acknowledgement,
    }
}

/// Returns whether the completion waits for an answer with data.
#[inline]
pub(super) fn is_answered(opcode: ibv_wr_opcode) -> bool {
    answer_to(opcode) == Answer::Response
}

/// Returns the number of a completion status.
#[inline]
pub(super) fn status_code(status: Status) -> ibv_wc_status {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::LocalLength => IBV_WC_LOC_LEN_ERR,
        Status::LocalQpOperation => IBV_WC_LOC_QP_OP_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::Flushed => IBV_WC_WR_FLUSH_ERR,
        Status::BadResponse => IBV_WC_BAD_RESP_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::LocalAccess => IBV_WC_LOC_ACCESS_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperation => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
    }
}

/// Returns the vendor syndrome: derived from the status, so that it is never 0 for a failure.
#[inline]
pub(super) fn vendor_error(status: ibv_wc_status) -> u32 {
    match status {
        IBV_WC_SUCCESS => 0,
        _ => 0x80 | status,
    }
}

/// Returns the completion of a receive of queue pair `number` that has failed.
pub(super) fn failed_receive(number: u32, wr_id: u64, status: Status) -> ibv_wc {
    let status = status_code(status);
    ibv_wc {
        wr_id,
        status,
        opcode: IBV_WC_RECV,
        qp_num: number,
        vendor_err: vendor_error(status),
        ..ibv_wc::default()
    }
}

/// Returns the right that both queue pair and key must grant.
#[inline]
pub(super) fn right_to(access: Access) -> u32 {
    match access {
        Access::Write => IBV_ACCESS_REMOTE_WRITE,
        Access::Read => IBV_ACCESS_REMOTE_READ,
        Access::Atomic => IBV_ACCESS_REMOTE_ATOMIC,
    }
}

/// Returns the number of an event.
pub(super) fn event_code(event: Event) -> ibv_event_type {
    match event {
        Event::InvalidRequest => IBV_EVENT_QP_REQ_ERR,
        Event::AccessViolation => IBV_EVENT_QP_ACCESS_ERR,
        Event::Fatal => IBV_EVENT_QP_FATAL,
    }
}
