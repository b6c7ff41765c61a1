//! Traces the calls through the table of an open device: those of the header's inline functions.

use std::mem::offset_of;
use std::ptr;
use std::slice;

use libc::{c_int, c_uint};
use verbena_abi::*;

use crate::call::{CallDetails, arguments, end, is_wanted};
use crate::counters::completion;
use crate::names::Kind;
use crate::queues::{attributes, initial, queue_pair};
use crate::rare_context_ops::*;
use crate::state::STATE;
use crate::text::{self, buffers, chain, format_sges, length, list, name};
use crate::{memory, objects, reading, words};

/// More requests than a queue of any adapter takes.
const LONGEST: usize = 1 << 20;

/// Returns the extended context around a context, if it has one.
fn extended(context: *mut ibv_context) -> Option<*mut verbs_context> {
    // SAFETY: the context of an open device.
    let is_extended = unsafe { (*context).abi_compat } == VERBS_ABI_IS_EXTENDED;
    is_extended.then(|| {
        context
            .wrapping_byte_sub(offset_of!(verbs_context, context))
            .cast()
    })
}

/// Copies the table. The extended context grows at its beginning; fields that this one lacks stay
/// empty.
fn copy(context: *mut ibv_context) -> verbs_context {
    let mut copy = verbs_context::default();
    let whole = size_of::<verbs_context>();
    // SAFETY: `sz` is directly before the context, and is the size of the structure.
    let known = extended(context).map_or(size_of::<ibv_context>(), |table| unsafe {
        (*table).sz.min(whole)
    });
    let skipped = whole - known;
    // SAFETY: both structures end with the context, and have `known` bytes before their end.
    unsafe {
        let from = context
            .cast::<u8>()
            .wrapping_sub(offset_of!(verbs_context, context))
            .add(skipped);
        let to = (&raw mut copy).cast::<u8>().add(skipped);
        ptr::copy_nonoverlapping(from, to, known);
    }
    copy
}

/// Puts the tracer's functions into the table of a new device.
///
/// # Safety
/// `context` must be null, or an open device that is not in use yet.
pub unsafe fn replace(context: *mut ibv_context) {
    if context.is_null() || !is_wanted() {
        return;
    }
    let old = copy(context);
    if !STATE.lock().replaced.add_context(context, old) {
        return;
    }
    macro_rules! put {
        ($table:expr, $old:expr, $($slot:ident)*) => {$(
            if $old.$slot.is_some() {
                // SAFETY: the slot is not empty, so it exists.
                unsafe { (&raw mut (*$table).$slot).write(Some($slot)) };
            }
        )*};
    }
    // SAFETY: a field of the context, which is valid and not in use elsewhere, as the caller
    // promises.
    let ops = unsafe { &raw mut (*context).ops };
    put!(ops, old.context.ops,
        post_send post_recv post_srq_recv poll_cq req_notify_cq alloc_mw bind_mw dealloc_mw);
    if let Some(table) = extended(context) {
        put!(table, old,
            query_port query_device_ex create_cq_ex create_qp_ex create_srq_ex open_qp open_xrcd
            close_xrcd get_srq_num alloc_td dealloc_td alloc_parent_domain alloc_dm free_dm
            reg_dm_mr
            alloc_null_mr advise_mr modify_cq query_rt_values modify_qp_rate_limit post_srq_ops
            create_wq modify_wq destroy_wq create_rwq_ind_table destroy_rwq_ind_table
            create_counters destroy_counters read_counters attach_counters_point_flow
            ibv_create_flow ibv_destroy_flow create_flow_action_esp modify_flow_action_esp
            destroy_flow_action);
    }
}

/// Defines a slot's function: signature, expression for the context, the real function's slot, and
/// the code that describes the call.
macro_rules! slots {
    ($($slot:ident as $verb:literal($($argument:ident: $type:ty),*) -> $returns:ty;
        in $($place:ident).+ at $context:expr
        $(; refused $refuse:block)? => |$result:ident, $details:ident| $describe:block)*) => {$(
        pub unsafe extern "C" fn $slot($($argument: $type),*) -> $returns {
            #[allow(unused_unsafe, reason = "where the argument is the context itself")]
            // SAFETY: the program passes an object of this device, as the header's inline function
            // does.
            let real = crate::context_ops::real(unsafe { $context }, |table| table.$($place).+);
            // SAFETY: the program's call, with its own arguments.
            let made = || unsafe { real($($argument),*) };
            crate::call::call_or($verb, made, || { $($refuse)? }, |$result, $details| $describe)
        }
    )*};
}

/// Returns the real function of a slot. Only filled slots were replaced.
pub fn real<F: Copy>(context: *mut ibv_context, slot: impl Fn(&verbs_context) -> Option<F>) -> F {
    let found = STATE.lock().replaced.context(context).and_then(slot);
    match found {
        Some(real) => real,
        // Without the tracer, a program that uses a closed device would end in much the same way.
        None => {
            eprintln!("verbena trace: a call on a device that is not open");
            std::process::abort();
        }
    }
}

pub(crate) use slots;

/// Tells the program that the first request of a list was refused, and so are those after it.
pub fn all_refused<T>(list: *mut T, bad: *mut *mut T) {
    if !bad.is_null() {
        // SAFETY: the program's place for the refused request.
        unsafe { bad.write(list) };
    }
}

slots! {
    post_send as "ibv_post_send"(qp: *mut ibv_qp, wr: *mut ibv_send_wr,
        bad: *mut *mut ibv_send_wr) -> c_int;
        in context.ops.post_send at (*qp).context; refused { all_refused(wr, bad); }
    => |result, details| {
        details.errno_value(result);
        if !details.text {
            return;
        }
        let (taken, bad) = posted(details, wr, bad, |wr| wr.next);
        // SAFETY: a queue pair of the program, and requests that the queue took.
        let mut words: Vec<_> = taken.iter().map(|wr| unsafe { send_request(&*qp, wr) }).collect();
        words.extend(bad.map(|wr| {
            format!("{{wr_id={:#x}, {}, {} buffers}}", wr.wr_id, words::request(wr.opcode),
                wr.num_sge)
        }));
        // SAFETY: requests that the queue took, so their buffer lists are valid.
        details.bytes = taken.iter().map(|wr| length(unsafe { buffers(wr.sg_list, wr.num_sge) }))
            .sum();
        arguments!(details, "{}, {}", name(Kind::Qp, qp), list(words.iter()));
    }

    post_recv as "ibv_post_recv"(qp: *mut ibv_qp, wr: *mut ibv_recv_wr,
        bad: *mut *mut ibv_recv_wr) -> c_int;
        in context.ops.post_recv at (*qp).context; refused { all_refused(wr, bad); }
    => |result, details| {
        receives(details, result, wr, bad);
        arguments!(details, "{}, {}", name(Kind::Qp, qp), details.arguments);
    }

    post_srq_recv as "ibv_post_srq_recv"(srq: *mut ibv_srq, wr: *mut ibv_recv_wr,
        bad: *mut *mut ibv_recv_wr) -> c_int;
        in context.ops.post_srq_recv at (*srq).context; refused { all_refused(wr, bad); }
    => |result, details| {
        receives(details, result, wr, bad);
        arguments!(details, "{}, {}", name(Kind::Srq, srq), details.arguments);
    }

    poll_cq as "ibv_poll_cq"(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int;
        in context.ops.poll_cq at (*cq).context
    => |result, details| {
        match usize::try_from(result) {
            Ok(0) => {
                details.gave(0);
                details.found_nothing();
            }
            Ok(count) => {
                details.minus_one(result);
                // SAFETY: the call has filled `count` completions.
                let found = unsafe { slice::from_raw_parts(wc, count) };
                found.iter().for_each(completion);
                if !details.text {
                    return;
                }
                let received = found.iter()
                    .filter(|wc| wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV != 0);
                details.bytes = received.map(|wc| u64::from(wc.byte_len)).sum();
                details.with(list(found.iter().map(text::completion)));
            }
            Err(_) => details.minus_one(-1),
        }
        arguments!(details, "{}, {entries}", name(Kind::Cq, cq));
    }

    req_notify_cq as "ibv_req_notify_cq"(cq: *mut ibv_cq, solicited: c_int) -> c_int;
        in context.ops.req_notify_cq at (*cq).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}, {}", name(Kind::Cq, cq),
            if solicited == 0 { "all" } else { "solicited" });
    }

    alloc_mw as "ibv_alloc_mw"(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw;
        in context.ops.alloc_mw at (*pd).context
    => |mw, details| {
        details.object(Kind::Mw, mw);
        // SAFETY: null, or a valid object that the call has created.
        if let Some(mw) = unsafe { mw.as_ref() } {
            details.with(format_args!("{{rkey={:#x}}}", mw.rkey));
        }
        arguments!(details, "{}, type {kind}", name(Kind::Pd, pd));
    }

    bind_mw as "ibv_bind_mw"(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int;
        in context.ops.bind_mw at (*qp).context
    => |result, details| {
        details.errno_value(result);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { bind.as_ref() }.map_or("NULL".into(), |bind| bound(&bind.bind_info));
        if details.succeeded() {
            // SAFETY: a window that was just bound.
            details.with(format_args!("{{rkey={:#x}}}", unsafe { (*mw).rkey }));
        }
        arguments!(details, "{}, {}, {words}", name(Kind::Qp, qp), name(Kind::Mw, mw));
    }

    query_port as "ibv_query_port"(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr,
        size: usize) -> c_int;
        in query_port at context
    => |result, details| {
        details.errno_value(result);
        // The described fields are in the part that every program's structure has.
        let room = size >= offset_of!(ibv_port_attr, port_cap_flags2) && !attr.is_null();
        if details.succeeded() && room {
            // SAFETY: the call has filled it; a shorter structure lacks only fields that are not
            // read.
            details.with(unsafe { objects::port(&*attr) });
        }
        arguments!(details, "{}, port={port}", name(Kind::Context, context));
    }

    query_device_ex as "ibv_query_device_ex"(
        context: *mut ibv_context, input: *const ibv_query_device_ex_input,
        attr: *mut ibv_device_attr_ex, size: usize
    ) -> c_int;
        in query_device_ex at context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    create_cq_ex as "ibv_create_cq_ex"(context: *mut ibv_context,
        init: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
        in create_cq_ex at context
    => |cq, details| {
        details.object(Kind::Cq, cq);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { init.as_ref() }.map_or("NULL".into(), |init| format!(
            "{{cqe={}, {}, vector={}, wc_flags={:#x}}}",
            init.cqe, name(Kind::Channel, init.channel), init.comp_vector, init.wc_flags
        ));
        arguments!(details, "{}, {words}", name(Kind::Context, context));
        // SAFETY: null, or a new completion queue that nothing else uses yet.
        unsafe { reading::replace(cq) };
    }

    create_qp_ex as "ibv_create_qp_ex"(context: *mut ibv_context,
        init: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
        in create_qp_ex at context
    => |qp, details| {
        queue_pair(details, qp);
        // SAFETY: null, or valid during the program's call; it begins with the fields of the plain
        // structure.
        let words = unsafe { init.cast::<ibv_qp_init_attr>().as_ref() }.map_or("NULL".into(),
            initial);
        arguments!(details, "{}, {words}", name(Kind::Context, context));
        // SAFETY: null, or valid during the program's call.
        if let Some(init) = unsafe { init.as_ref() }.filter(|_| details.text) {
            if init.comp_mask & IBV_QP_INIT_ATTR_PD != 0 {
                details.arguments.push_str(&format!(", {}", name(Kind::Pd, init.pd)));
            }
            if init.comp_mask & IBV_QP_INIT_ATTR_XRCD != 0 {
                details.arguments.push_str(&format!(", {}", name(Kind::Xrcd, init.xrcd)));
            }
            if init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
                details.arguments.push_str(&format!(", send_ops={:#x}", init.send_ops_flags));
            }
        }
    }

    create_srq_ex as "ibv_create_srq_ex"(context: *mut ibv_context,
        init: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
        in create_srq_ex at context
    => |srq, details| {
        details.object(Kind::Srq, srq);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { init.as_ref() }.map_or("NULL".into(), |init| format!(
            "{{{}, {}}}", words::srq_type(init.srq_type), attributes(&init.attr)
        ));
        arguments!(details, "{}, {words}", name(Kind::Context, context));
    }

    open_qp as "ibv_open_qp"(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
        in open_qp at context
    => |qp, details| {
        queue_pair(details, qp);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { attr.as_ref() }.map_or("NULL".into(), |attr| format!(
            "{{{}, qp_num={:#x}, {}}}", words::qp_type(attr.qp_type), attr.qp_num,
            name(Kind::Xrcd, attr.xrcd)
        ));
        arguments!(details, "{}, {words}", name(Kind::Context, context));
    }

    open_xrcd as "ibv_open_xrcd"(context: *mut ibv_context,
        init: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
        in open_xrcd at context
    => |xrcd, details| {
        details.object(Kind::Xrcd, xrcd);
        // SAFETY: null, or valid during the program's call.
        let fd = unsafe { init.as_ref() }.map_or(-1, |init| init.fd);
        arguments!(details, "{}, fd {fd}", name(Kind::Context, context));
    }

    get_srq_num as "ibv_get_srq_num"(srq: *mut ibv_srq, number: *mut u32) -> c_int;
        in get_srq_num at (*srq).context
    => |result, details| {
        details.errno_value(result);
        if details.succeeded() && !number.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(format_args!("{:#x}", unsafe { *number }));
        }
        arguments!(details, "{}", name(Kind::Srq, srq));
    }

    alloc_td as "ibv_alloc_td"(context: *mut ibv_context,
        init: *mut ibv_td_init_attr) -> *mut ibv_td;
        in alloc_td at context
    => |td, details| {
        details.object(Kind::Td, td);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    alloc_parent_domain as "ibv_alloc_parent_domain"(
        context: *mut ibv_context, init: *mut ibv_parent_domain_init_attr
    ) -> *mut ibv_pd;
        in alloc_parent_domain at context
    => |pd, details| {
        details.object(Kind::Pd, pd);
        // SAFETY: null, or valid during the program's call.
        let words = unsafe { init.as_ref() }.map_or("NULL".into(), |init| format!(
            "{}, {}", name(Kind::Pd, init.pd), name(Kind::Td, init.td)
        ));
        arguments!(details, "{}, {words}", name(Kind::Context, context));
    }

    alloc_dm as "ibv_alloc_dm"(context: *mut ibv_context,
        attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
        in alloc_dm at context
    => |dm, details| {
        details.object(Kind::Dm, dm);
        // SAFETY: null, or valid during the program's call.
        let length = unsafe { attr.as_ref() }.map_or(0, |attr| attr.length);
        arguments!(details, "{}, {length} B", name(Kind::Context, context));
    }

    reg_dm_mr as "ibv_reg_dm_mr"(pd: *mut ibv_pd, dm: *mut ibv_dm, offset: u64, length: usize,
        access: c_uint) -> *mut ibv_mr;
        in reg_dm_mr at (*pd).context
    => |mr, details| {
        memory::region(details, mr, length);
        arguments!(
            details, "{}, {}, offset={offset:#x}, {length} B, {}",
            name(Kind::Pd, pd), name(Kind::Dm, dm), words::access(access)
        );
    }

    alloc_null_mr as "ibv_alloc_null_mr"(pd: *mut ibv_pd) -> *mut ibv_mr;
        in alloc_null_mr at (*pd).context
    => |mr, details| {
        memory::region(details, mr, 0);
        arguments!(details, "{}", name(Kind::Pd, pd));
    }
}

/// Defines slots that destroy an object.
macro_rules! ending_slots {
    ($($slot:ident as $verb:literal($object:ident: *mut $type:ty) of $kind:expr,
        in $($place:ident).+ at $context:expr)*) => {$(
        pub unsafe extern "C" fn $slot($object: *mut $type) -> c_int {
            // SAFETY: the program passes an object of this device.
            let real = real(unsafe { $context }, |table| table.$($place).+);
            // SAFETY: the program's call, with its own arguments.
            end($verb, $kind, $object, || unsafe { real($object) })
        }
    )*};
}

pub(crate) use ending_slots;

ending_slots! {
    dealloc_mw as "ibv_dealloc_mw"(mw: *mut ibv_mw) of Kind::Mw,
    in context.ops.dealloc_mw at (*mw).context
    close_xrcd as "ibv_close_xrcd"(xrcd: *mut ibv_xrcd) of Kind::Xrcd,
    in close_xrcd at (*xrcd).context
    dealloc_td as "ibv_dealloc_td"(td: *mut ibv_td) of Kind::Td, in dealloc_td at (*td).context
    free_dm as "ibv_free_dm"(dm: *mut ibv_dm) of Kind::Dm, in free_dm at (*dm).context
}

/// Describes posted receives and their bytes.
fn receives(
    details: &mut CallDetails,
    result: c_int,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) {
    details.errno_value(result);
    if !details.text {
        return;
    }
    let (taken, bad) = posted(details, wr, bad, |wr| wr.next);
    let words = taken.iter().map(|wr| {
        // SAFETY: a request that the queue took, so its buffer list is valid.
        let sges = unsafe { format_sges(buffers(wr.sg_list, wr.num_sge)) };
        format!("{{wr_id={:#x}, {sges}}}", wr.wr_id)
    });
    let bad = bad.map(|wr| format!("{{wr_id={:#x}, {} buffers}}", wr.wr_id, wr.num_sge));
    details.arguments = list(words.chain(bad));
    // SAFETY: requests that the queue took, so their buffer lists are valid.
    let lengths = taken
        .iter()
        .map(|wr| length(unsafe { buffers(wr.sg_list, wr.num_sge) }));
    details.bytes = lengths.sum();
}

/// Returns the requests of a list that the queue took, and the one that it refused: its pointers
/// may be invalid, and the library has not looked at those behind it.
fn posted<T: 'static>(
    details: &mut CallDetails,
    first: *mut T,
    bad: *mut *mut T,
    next: fn(&T) -> *mut T,
) -> (Vec<&'static T>, Option<&'static T>) {
    // SAFETY: the list that the program posted.
    let list = unsafe { chain(first, next) };
    if details.succeeded() {
        return (list.collect(), None);
    }
    if bad.is_null() {
        return (Vec::new(), None);
    }
    // SAFETY: the failed call has set it to a request of the list.
    let bad = unsafe { *bad };
    let mut taken = Vec::new();
    for request in list.take(LONGEST) {
        if ptr::from_ref(request) == bad.cast_const() {
            details.with(format_args!("(request {})", taken.len()));
            return (taken, Some(request));
        }
        taken.push(request);
    }
    // It names no request of the list.
    (Vec::new(), None)
}

/// Describes the memory that a window is bound to.
pub fn bound(info: &ibv_mw_bind_info) -> String {
    format!(
        "{{{}, {:#x}, {} B, {}}}",
        name(Kind::Mr, info.mr),
        info.addr,
        info.length,
        words::access(info.mw_access_flags)
    )
}

/// Describes a send request.
///
/// # Safety
/// `wr` must be a request that the program posts to this queue pair.
unsafe fn send_request(qp: &ibv_qp, wr: &ibv_send_wr) -> String {
    // SAFETY: the caller promises a posted request, whose buffer list is valid.
    let sges = unsafe { format_sges(buffers(wr.sg_list, wr.num_sge)) };
    let mut text = format!("{{wr_id={:#x}, {}", wr.wr_id, words::request(wr.opcode));
    if wr.num_sge > 0 {
        text.push_str(&format!(", {sges}"));
    }
    // SAFETY: opcode and transport determine the valid member (ibv_post_send(3)).
    unsafe {
        match wr.opcode {
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
            | IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_WRITE => {
                let to = wr.wr.rdma;
                text.push_str(&format!(
                    ", remote={:#x} rkey={:#x}",
                    to.remote_addr, to.rkey
                ));
            }
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                let to = wr.wr.atomic;
                text.push_str(&format!(
                    ", remote={:#x} rkey={:#x}, compare={:#x}, swap={:#x}",
                    to.remote_addr, to.rkey, to.compare_add, to.swap
                ));
            }
            IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let to = wr.wr.atomic;
                text.push_str(&format!(
                    ", remote={:#x} rkey={:#x}, add={:#x}",
                    to.remote_addr, to.rkey, to.compare_add
                ));
            }
            IBV_WR_BIND_MW => {
                let bind = wr.extra.bind_mw;
                text.push_str(&format!(
                    ", {}, rkey={:#x}, {}",
                    name(Kind::Mw, bind.mw),
                    bind.rkey,
                    bound(&bind.bind_info)
                ));
            }
            _ => {}
        }
        match wr.opcode {
            IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM => {
                text.push_str(&format!(", imm={:#x}", u32::from_be(wr.imm.imm_data)));
            }
            IBV_WR_SEND_WITH_INV | IBV_WR_LOCAL_INV => {
                text.push_str(&format!(", invalidate={:#x}", wr.imm.invalidate_rkey));
            }
            _ => {}
        }
        if qp.qp_type == IBV_QPT_UD {
            let to = wr.wr.ud;
            text.push_str(&format!(
                ", to={} qp={:#x} qkey={:#x}",
                name(Kind::Ah, to.ah),
                to.remote_qpn,
                to.remote_qkey
            ));
        }
        if qp.qp_type == IBV_QPT_XRC_SEND {
            text.push_str(&format!(", srq={:#x}", wr.qp_type.xrc.remote_srqn));
        }
    }
    if wr.send_flags != 0 {
        text.push_str(&format!(", {}", words::send_flags(wr.send_flags)));
    }
    text.push('}');
    text
}
