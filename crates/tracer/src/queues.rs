//! Completion queues, shared receive queues and queue pairs.

use libc::{c_int, c_void};
use verbena_abi::*;

use crate::call::{CallDetails, arguments, end, ends, verbs};
use crate::names::Kind;
use crate::real::real;
use crate::state::STATE;
use crate::text::{self, name};
use crate::{building, words};

verbs! {
    fn ibv_create_cq(
        context: *mut ibv_context, cqe: c_int, user: *mut c_void, channel: *mut ibv_comp_channel,
        vector: c_int
    ) -> *mut ibv_cq
    |cq, details| {
        let _ = user;
        details.object(Kind::Cq, cq);
        arguments!(
            details, "{}, cqe={cqe}, {}, vector={vector}",
            name(Kind::Context, context), name(Kind::Channel, channel)
        );
    }

    fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int |result, details| {
        details.errno_value(result);
        arguments!(details, "{}, cqe={cqe}", name(Kind::Cq, cq));
    }

    fn ibv_create_srq(
        pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq |srq, details| {
        details.object(Kind::Srq, srq);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { attr.as_ref() }.map_or("NULL".into(), |init| attributes(&init.attr));
        arguments!(details, "{}, {words}", name(Kind::Pd, pd));
    }

    fn ibv_modify_srq(
        srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int |result, details| {
        details.errno_value(result);
        // SAFETY: null, or valid during the program's call.
        let attr = unsafe { attr.as_ref() }.copied().unwrap_or_default();
        let mut changes = String::new();
        if mask & IBV_SRQ_MAX_WR != 0 {
            changes.push_str(&format!(", wr={}", attr.max_wr));
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            changes.push_str(&format!(", limit={}", attr.srq_limit));
        }
        arguments!(details, "{}{changes}", name(Kind::Srq, srq));
    }

    fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int |result, details| {
        details.errno_value(result);
        if details.succeeded() && !attr.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(attributes(unsafe { &*attr }));
        }
        arguments!(details, "{}", name(Kind::Srq, srq));
    }

    fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp |qp, details| {
        queue_pair(details, qp);
        // SAFETY: null, or valid during the program's call.
        let init = unsafe { init.as_ref() }.map_or("NULL".into(), initial);
        arguments!(details, "{}, {init}", name(Kind::Pd, pd));
    }

    fn ibv_modify_qp(
        qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int |result, details| {
        details.errno_value(result);
        // SAFETY: null, or valid during the program's call.
        let attr = unsafe { attr.as_ref() }.map_or("NULL".into(),
            |attr| text::qp_attributes(attr, mask));
        arguments!(details, "{}, {attr}", name(Kind::Qp, qp));
    }

    fn ibv_query_qp(
        qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int, init: *mut ibv_qp_init_attr) -> c_int
    |result, details| {
        details.errno_value(result);
        let _ = init;
        if details.succeeded() && !attr.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(text::qp_attributes(unsafe { &*attr }, mask));
        }
        arguments!(details, "{}, mask={mask:#x}", name(Kind::Qp, qp));
    }

    fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int |result, details| {
        let _ = ece;
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Qp, qp));
    }

    fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int |result, details| {
        let _ = ece;
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Qp, qp));
    }

    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int |result, details| {
        details.errno_value(result);
        group(details, qp, gid, lid);
    }

    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int |result, details| {
        details.errno_value(result);
        group(details, qp, gid, lid);
    }
}

ends! {
    fn ibv_destroy_srq(srq: *mut ibv_srq) of Kind::Srq
}

/// Destroys a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    let real = real!(ibv_destroy_cq: unsafe extern "C" fn(*mut ibv_cq) -> c_int);
    // SAFETY: the program's call, with its own arguments.
    let result = end("ibv_destroy_cq", Kind::Cq, cq, || unsafe { real(cq) });
    if result == 0 {
        STATE.lock().replaced.remove_reader(cq);
    }
    result
}

/// Destroys a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let real = real!(ibv_destroy_qp: unsafe extern "C" fn(*mut ibv_qp) -> c_int);
    // SAFETY: the program's call, with its own arguments.
    let result = end("ibv_destroy_qp", Kind::Qp, qp, || unsafe { real(qp) });
    if result == 0 {
        STATE.lock().replaced.remove_builder(qp);
    }
    result
}

/// Returns the extended form of a queue pair, with the tracer's functions in its table. Not
/// recorded, as it is a cast.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let real = real!(ibv_qp_to_qp_ex: unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex);
    // SAFETY: the program's call, with its own arguments.
    let extended = unsafe { real(qp) };
    // SAFETY: null, or the queue pair's extended form, which the program has not used yet.
    unsafe { building::replace(extended) };
    extended
}

/// Describes a new queue pair, with its number.
pub fn queue_pair(details: &mut CallDetails, qp: *mut ibv_qp) {
    details.object(Kind::Qp, qp);
    // SAFETY: null, or a valid object that the call has created.
    if let Some(qp) = unsafe { qp.as_ref() } {
        details.with(format_args!("{{qp_num={:#x}}}", qp.qp_num));
    }
}

/// Describes the initial attributes of a queue pair.
pub fn initial(init: &ibv_qp_init_attr) -> String {
    let mut text = format!(
        "{{{}, send_cq={}, recv_cq={}",
        words::qp_type(init.qp_type),
        name(Kind::Cq, init.send_cq),
        name(Kind::Cq, init.recv_cq)
    );
    if !init.srq.is_null() {
        text.push_str(&format!(", srq={}", name(Kind::Srq, init.srq)));
    }
    if init.sq_sig_all != 0 {
        text.push_str(", sq_sig_all");
    }
    text.push_str(&format!(", cap={}}}", text::capacity(&init.cap)));
    text
}

/// Describes the limits of a shared receive queue.
pub fn attributes(attr: &ibv_srq_attr) -> String {
    format!(
        "{{wr={}, sge={}, limit={}}}",
        attr.max_wr, attr.max_sge, attr.srq_limit
    )
}

fn group(details: &mut CallDetails, qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) {
    // SAFETY: null, or valid during the program's call.
    let gid = unsafe { gid.as_ref() }.map_or("NULL".into(), |gid| format!("{gid:?}"));
    arguments!(details, "{}, {gid}, lid={lid:#x}", name(Kind::Qp, qp));
}
