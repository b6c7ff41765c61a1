//! Traces the building of work requests: ibv_wr_start(3), the requests, ibv_wr_complete. One record
//! per batch, at its end.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::slice;

use libc::{c_int, c_void};
use verbena_abi::*;

use crate::call::{arguments, call_or, is_wanted};
use crate::context_ops::bound;
use crate::names::Kind;
use crate::state::STATE;
use crate::text::{format_sges, length, list, name};
use crate::{sender, words};

/// The batch that a thread builds. The interface binds a batch to the thread that began it.
#[derive(Default)]
struct Batch {
    requests: Vec<String>,
    bytes: u64,
}

thread_local! {
    static BATCH: RefCell<Batch> = RefCell::default();
}

fn batch<R>(change: impl FnOnce(&mut Batch) -> R) -> R {
    BATCH.with_borrow_mut(change)
}

/// Puts the tracer's functions into the table of a queue pair.
///
/// # Safety
/// `qp` must be null, or the extended form of a queue pair that is not in use yet.
pub unsafe fn replace(qp: *mut ibv_qp_ex) {
    if qp.is_null() || !is_wanted() {
        return;
    }
    // SAFETY: not null, and the caller promises exclusive use. Slots that the library's structure
    // lacks are not accessed.
    let table = unsafe { &mut *qp };
    if !STATE.lock().replaced.add_builder(qp, *table) {
        return;
    }
    macro_rules! put {
        ($($slot:ident)*) => {$(
            table.$slot = table.$slot.and(Some($slot));
        )*};
    }
    put!(wr_complete);
    if !sender::has_listener() {
        return;
    }
    put!(wr_atomic_cmp_swp wr_atomic_fetch_add wr_atomic_write wr_bind_mw wr_local_inv
        wr_rdma_read wr_rdma_write wr_rdma_write_imm wr_send wr_send_imm wr_send_inv wr_send_tso
        wr_set_ud_addr wr_set_xrc_srqn wr_set_inline_data wr_set_inline_data_list wr_set_sge
        wr_set_sge_list wr_start wr_abort);
}

/// Returns the real function of a slot, if the queue pair has one.
fn real<F: Copy>(qp: *mut ibv_qp_ex, slot: impl Fn(&ibv_qp_ex) -> Option<F>) -> Option<F> {
    STATE.lock().replaced.builder(qp).and_then(slot)
}

/// Functions that begin a request or add to one: they note it and call the real function.
macro_rules! noted {
    ($($slot:ident($qp:ident $(, $argument:ident: $type:ty)*) $note:block)*) => {$(
        unsafe extern "C" fn $slot($qp: *mut ibv_qp_ex $(, $argument: $type)*) {
            if sender::has_listener() {
                $note
            }
            if let Some(real) = real($qp, |table| table.$slot) {
                // SAFETY: the program's call, with its own arguments.
                unsafe { real($qp $(, $argument)*) }
            }
        }
    )*};
}

/// Begins a request.
fn begin(qp: *mut ibv_qp_ex, opcode: ibv_wr_opcode, words: &str) {
    // SAFETY: the program's queue pair, whose `wr_id` and `wr_flags` it has set before the call.
    let (id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
    let mut text = format!("wr_id={id:#x}, {}{words}", words::request(opcode));
    if flags != 0 {
        let _ = write!(text, ", {}", words::send_flags(flags));
    }
    batch(|batch| batch.requests.push(text));
}

/// Adds to the last request.
fn add(words: &str, bytes: u64) {
    batch(|batch| {
        batch.bytes += bytes;
        if let Some(last) = batch.requests.last_mut() {
            last.push_str(words);
        }
    });
}

fn remote(address: u64, rkey: u32) -> String {
    format!(", remote={address:#x} rkey={rkey:#x}")
}

noted! {
    wr_start(qp) {
        batch(|batch| *batch = Batch::default());
    }
    wr_abort(qp) {
        batch(|batch| *batch = Batch::default());
    }
    wr_send(qp) {
        begin(qp, IBV_WR_SEND, "");
    }
    wr_send_imm(qp, imm: u32) {
        begin(qp, IBV_WR_SEND_WITH_IMM, &format!(", imm={:#x}", u32::from_be(imm)));
    }
    wr_send_inv(qp, rkey: u32) {
        begin(qp, IBV_WR_SEND_WITH_INV, &format!(", invalidate={rkey:#x}"));
    }
    wr_local_inv(qp, rkey: u32) {
        begin(qp, IBV_WR_LOCAL_INV, &format!(", invalidate={rkey:#x}"));
    }
    wr_rdma_read(qp, rkey: u32, address: u64) {
        begin(qp, IBV_WR_RDMA_READ, &remote(address, rkey));
    }
    wr_rdma_write(qp, rkey: u32, address: u64) {
        begin(qp, IBV_WR_RDMA_WRITE, &remote(address, rkey));
    }
    wr_rdma_write_imm(qp, rkey: u32, address: u64, imm: u32) {
        let imm_words = format!("{}, imm={:#x}", remote(address, rkey), u32::from_be(imm));
        begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, &imm_words);
    }
    wr_atomic_cmp_swp(qp, rkey: u32, address: u64, compare: u64, swap: u64) {
        let words = format!("{}, compare={compare:#x}, swap={swap:#x}", remote(address, rkey));
        begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, &words);
    }
    wr_atomic_fetch_add(qp, rkey: u32, address: u64, add: u64) {
        begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, &format!("{}, add={add:#x}", remote(address, rkey)));
    }
    wr_atomic_write(qp, rkey: u32, address: u64, value: *const c_void) {
        begin(qp, IBV_WR_ATOMIC_WRITE, &remote(address, rkey));
        add("", 8);
    }
    wr_send_tso(qp, header: *mut c_void, header_bytes: u16, mss: u16) {
        begin(qp, IBV_WR_TSO, &format!(", header {header_bytes} B, mss={mss}"));
    }
    wr_bind_mw(qp, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
        // SAFETY: null, or valid during the program's call.
        let info_words = unsafe { info.as_ref() }.map_or("NULL".into(), bound);
        begin(qp, IBV_WR_BIND_MW, &format!(", {}, rkey={rkey:#x}, {info_words}",
            name(Kind::Mw, mw)));
    }
    wr_set_ud_addr(qp, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
        add(&format!(", to={} qp={remote_qpn:#x} qkey={remote_qkey:#x}", name(Kind::Ah, ah)), 0);
    }
    wr_set_xrc_srqn(qp, srqn: u32) {
        add(&format!(", srq={srqn:#x}"), 0);
    }
    wr_set_inline_data(qp, address: *mut c_void, bytes: usize) {
        add(&format!(", inline {bytes} B"), bytes as u64);
    }
    wr_set_inline_data_list(qp, count: usize, buffers: *const ibv_data_buf) {
        let buffers = match buffers.is_null() {
            true => &[],
            // SAFETY: the program passes a valid array of this length.
            false => unsafe { slice::from_raw_parts(buffers, count) },
        };
        let bytes = buffers.iter().map(|one| one.length as u64).sum();
        add(&format!(", inline {bytes} B in {count}"), bytes);
    }
    wr_set_sge(qp, lkey: u32, address: u64, bytes: u32) {
        let sge = ibv_sge { addr: address, length: bytes, lkey };
        add(&format!(", {}", format_sges(&[sge])), bytes.into());
    }
    wr_set_sge_list(qp, count: usize, sges: *const ibv_sge) {
        let sges = match sges.is_null() {
            true => &[],
            // SAFETY: the program passes a valid array of this length.
            false => unsafe { slice::from_raw_parts(sges, count) },
        };
        add(&format!(", {}", format_sges(sges)), length(sges));
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let Some(real) = real(qp, |table| table.wr_complete) else {
        return libc::EINVAL;
    };
    let batch = batch(std::mem::take);
    let abort = self::real(qp, |table| table.wr_abort);
    call_or(
        "ibv_wr_complete",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(qp) },
        || {
            if let Some(abort) = abort {
                // SAFETY: the queue pair, whose requests were begun.
                unsafe { abort(qp) }
            }
        },
        |result, details| {
            details.errno_value(result);
            details.bytes = batch.bytes;
            if !details.text {
                return;
            }
            let requests = list(batch.requests.iter().map(|one| format!("{{{one}}}")));
            arguments!(details, "{}, {requests}", name(Kind::Qp, qp));
        },
    )
}
