//! Traces the reading of extended completion queues: ibv_start_poll(3) and ibv_next_poll.

use libc::c_int;
use verbena_abi::*;

use crate::call::{CallDetails, arguments, call};
use crate::counters;
use crate::names::Kind;
use crate::state::STATE;
use crate::text::{self, name};

/// Puts the tracer's functions into the table of a new completion queue.
///
/// # Safety
/// `cq` must be null, or a completion queue that is not in use yet.
pub unsafe fn replace(cq: *mut ibv_cq_ex) {
    if cq.is_null() {
        return;
    }
    // SAFETY: not null, and the caller promises exclusive use.
    let queue = unsafe { &mut *cq };
    if !STATE.lock().replaced.add_reader(cq, *queue) {
        return;
    }
    queue.start_poll = queue.start_poll.and(Some(start_poll));
    queue.next_poll = queue.next_poll.and(Some(next_poll));
}

/// Returns the real table of a completion queue.
fn real(cq: *mut ibv_cq_ex) -> Option<ibv_cq_ex> {
    STATE.lock().replaced.reader(cq).copied()
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let Some((table, real)) = real(cq).and_then(|table| Some((table, table.start_poll?))) else {
        return libc::EINVAL;
    };
    call(
        "ibv_start_poll",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(cq, attr) },
        |result, details| found(details, result, cq, &table),
    )
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some((table, real)) = real(cq).and_then(|table| Some((table, table.next_poll?))) else {
        return libc::EINVAL;
    };
    call(
        "ibv_next_poll",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(cq) },
        |result, details| found(details, result, cq, &table),
    )
}

/// Describes the current completion, or that there is none.
fn found(details: &mut CallDetails, result: c_int, cq: *mut ibv_cq_ex, table: &ibv_cq_ex) {
    arguments!(details, "{}", name(Kind::Cq, cq));
    if result == libc::ENOENT {
        details.gave("ENOENT");
        details.found_nothing();
        return;
    }
    details.errno_value(result);
    if !details.succeeded() {
        return;
    }
    // SAFETY: the queue has a current completion. Readers that it was not created with are empty,
    // or return values that the completion's flags mark as meaningless.
    let wc = unsafe {
        let number = |read: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>| {
            read.map_or(0, |read| read(cq))
        };
        let mut wc = ibv_wc {
            wr_id: (*cq).wr_id,
            status: (*cq).status,
            vendor_err: number(table.read_vendor_err),
            qp_num: number(table.read_qp_num),
            ..Default::default()
        };
        if wc.status == IBV_WC_SUCCESS || counters::tells_failed_operation() {
            wc.opcode = number(table.read_opcode);
        }
        if wc.status == IBV_WC_SUCCESS {
            wc.byte_len = number(table.read_byte_len);
            wc.wc_flags = number(table.read_wc_flags);
            wc.imm.imm_data = number(table.read_imm_data);
        }
        wc
    };
    counters::completion(&wc);
    if !details.text {
        return;
    }
    if wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV != 0 {
        details.bytes = u64::from(wc.byte_len);
    }
    details.with(text::completion(&wc));
}
