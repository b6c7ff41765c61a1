//! The extended interface of a completion queue (ibv_create_cq_ex(3)): an iterator over
//! completions, and a function for each field of the current one. The functions are in the queue's
//! structure, where the header's inline functions call them.

use libc::{c_int, c_uint};
use verbena_abi::*;
use verbena_hca::cq::Completion;
use verbena_hca::process::Cq;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::cq::CqObject;
use crate::current_completion::CurrentCompletion;
use crate::handle::Handle;
use crate::outcome;

/// The available fields. VLAN, flow tag and tag matching belong to features that the adapter does
/// not have.
pub const READABLE: u64 = IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Fills in the functions.
pub fn fill(c: &mut ibv_cq_ex, has_rules: bool) {
    c.start_poll = Some(start_poll);
    c.next_poll = Some(next_poll);
    if has_rules {
        c.start_poll.replace(start_poll_by_rules);
        c.next_poll.replace(next_poll_by_rules);
    }
    c.end_poll = Some(end_poll);
    c.read_opcode = Some(read_opcode);
    c.read_vendor_err = Some(read_vendor_err);
    c.read_byte_len = Some(read_byte_len);
    c.read_imm_data = Some(read_imm_data);
    c.read_qp_num = Some(read_qp_num);
    c.read_src_qp = Some(read_src_qp);
    c.read_wc_flags = Some(read_wc_flags);
    c.read_slid = Some(read_slid);
    c.read_sl = Some(read_sl);
    c.read_dlid_path_bits = Some(read_dlid_path_bits);
    c.read_completion_ts = Some(read_completion_ts);
    c.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
    c.read_cvlan = Some(read_cvlan);
    c.read_flow_tag = Some(read_flow_tag);
    c.read_tm_info = Some(read_tm_info);
}

/// Moves the iterator to the next completion.
///
/// # Safety
/// `cq` must be live, and this thread must own its iterator.
#[inline]
unsafe fn advance(
    cq: *mut ibv_cq_ex,
    object: &CqObject,
    take: impl Fn(&Cq) -> Option<Completion<'static>>,
) -> Result<()> {
    let completion = take(&object.cq).ok_or(Errno::ENOENT)?;
    // SAFETY: live, as the caller promises; this thread owns the iterator and these two fields.
    unsafe {
        (&raw mut (*cq).wr_id).write(completion.wc.wr_id);
        (&raw mut (*cq).status).write(completion.wc.status);
        *object.current.completion.get() = CurrentCompletion {
            wc: completion.wc,
            timestamp: completion.timestamp,
        };
    }
    Ok(())
}

/// Begins a batch with the first completion; returns ENOENT if there is none. `errno` is unchanged,
/// as an empty queue is no failure.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: as for the caller.
    unsafe { start(cq, attr, Cq::take) }
}

/// As [`start_poll`], where rules are about the queue.
unsafe extern "C" fn start_poll_by_rules(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: as for the caller.
    unsafe { start(cq, attr, Cq::take_first_by_rules) }
}

#[inline(always)]
unsafe fn start(
    cq: *mut ibv_cq_ex,
    attr: *mut ibv_poll_cq_attr,
    take: impl Fn(&Cq) -> Option<Completion<'static>>,
) -> c_int {
    // SAFETY: the header passes the structure that holds this function; `attr` is null or valid.
    let (object, attr) = unsafe { (&Handle::<CqObject>::known(cq).object, attr.as_ref()) };
    if let Some(mask) = attr.map(|attr| attr.comp_mask).filter(|mask| *mask != 0) {
        let error = refused!(
            EINVAL,
            "comp_mask of ibv_poll_cq_attr is {mask:#x}: set it to 0"
        );
        return outcome::errno_value("ibv_start_poll", Err(error));
    }
    object.current.acquire();
    // SAFETY: this thread has acquired the iterator.
    match unsafe { advance(cq, object, take) } {
        Ok(()) => 0,
        Err(error) => {
            object.current.release();
            error.0
        }
    }
}

/// Moves to the next completion; returns ENOENT if there is none.
unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the header passes the structure that holds this function, after `start_poll`.
    unsafe { advance(cq, &Handle::<CqObject>::known(cq).object, Cq::take) }
        .map_or_else(|e| e.0, |()| 0)
}

/// As [`next_poll`], where rules are about the queue.
unsafe extern "C" fn next_poll_by_rules(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as in `next_poll`.
    unsafe {
        advance(
            cq,
            &Handle::<CqObject>::known(cq).object,
            Cq::take_next_by_rules,
        )
    }
    .map_or_else(|e| e.0, |()| 0)
}

/// Ends the batch.
unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: the header passes the structure that holds this function.
    unsafe { Handle::<CqObject>::known(cq) }
        .object
        .current
        .release();
}

macro_rules! fields {
    ($($name:ident -> $type:ty: |$completion:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: the header passes the structure that holds this function, in the thread that
            // owns the batch.
            let $completion = unsafe { &*Handle::<CqObject>::known(cq)
                .object.current.completion.get() };
            $value
        }
    )*};
}

fields! {
    read_opcode -> ibv_wc_opcode: |completion| completion.wc.opcode;
    read_vendor_err -> u32: |completion| completion.wc.vendor_err;
    read_byte_len -> u32: |completion| completion.wc.byte_len;
    // SAFETY: both members of the union are a `u32`.
    read_imm_data -> u32: |completion| unsafe { completion.wc.imm.imm_data };
    read_qp_num -> u32: |completion| completion.wc.qp_num;
    read_src_qp -> u32: |completion| completion.wc.src_qp;
    read_wc_flags -> c_uint: |completion| completion.wc.wc_flags;
    read_slid -> u32: |completion| u32::from(completion.wc.slid);
    read_sl -> u8: |completion| completion.wc.sl;
    read_dlid_path_bits -> u8: |completion| completion.wc.dlid_path_bits;
    read_completion_ts -> u64: |completion| completion.timestamp;
    read_completion_wallclock_ns -> u64: |completion| wall_clock(completion.timestamp);
}

/// Returns 0, as the field is unavailable (see [`READABLE`]).
unsafe extern "C" fn read_cvlan(_cq: *mut ibv_cq_ex) -> u16 {
    0
}

/// Returns 0, as the field is unavailable (see [`READABLE`]).
unsafe extern "C" fn read_flow_tag(_cq: *mut ibv_cq_ex) -> u32 {
    0
}

/// Returns zeros, as the field is unavailable (see [`READABLE`]).
unsafe extern "C" fn read_tm_info(_cq: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info) {
    // SAFETY: null or valid for writes, by the header's contract.
    if let Some(tm_info) = unsafe { tm_info.as_mut() } {
        *tm_info = ibv_wc_tm_info::default();
    }
}

/// Converts a time of the adapter's clock, CLOCK_MONOTONIC, to the time of day, in nanoseconds.
fn wall_clock(monotonic: u64) -> u64 {
    let now = |clock| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for writes; both clocks exist on every Linux.
        unsafe { libc::clock_gettime(clock, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let ago = now(libc::CLOCK_MONOTONIC).saturating_sub(monotonic);
    now(libc::CLOCK_REALTIME).saturating_sub(ago)
}
