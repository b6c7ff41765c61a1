//! The connection manager: the functions of `librdmacm.so.1` that can fail, and its events.

use libc::{c_char, c_int, c_void, size_t};
use verbena_abi::*;
use verbena_coverage::outcome::Outcome;

use crate::call::{arguments, call, verbs};
use crate::names::Kind;
use crate::real::real;
use crate::state::STATE;
use crate::text::{name, string};
use crate::{counters, words};

/// `struct rdma_cm_id`, of which only the address is used.
#[repr(C)]
pub struct rdma_cm_id {
    _opaque: [u8; 0],
}

/// `struct rdma_event_channel`.
#[repr(C)]
pub struct rdma_event_channel {
    _opaque: [u8; 0],
}

/// The first fields of `struct rdma_cm_event` (rdma/rdma_cma.h).
#[repr(C)]
pub struct rdma_cm_event {
    id: *mut rdma_cm_id,
    listen_id: *mut rdma_cm_id,
    event: c_int,
    status: c_int,
}

verbs! { in CM:
    fn rdma_create_event_channel() -> *mut rdma_event_channel |channel, details| {
        details.object(Kind::CmChannel, channel);
    }

    fn rdma_create_id(
        channel: *mut rdma_event_channel, id: *mut *mut rdma_cm_id, context: *mut c_void,
        space: c_int
    ) -> c_int |result, details| {
        created(details, result, id);
        arguments!(details, "{}, port_space={space:#x}", name(Kind::CmChannel, channel));
    }

    fn rdma_create_ep(
        id: *mut *mut rdma_cm_id, address: *mut c_void, pd: *mut ibv_pd, init: *mut ibv_qp_init_attr
    ) -> c_int |result, details| {
        created(details, result, id);
        arguments!(details, "{}", name(Kind::Pd, pd));
    }

    fn rdma_get_request(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int
    |result, details| {
        created(details, result, id);
        arguments!(details, "{}", name(Kind::CmId, listener));
    }

    fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {}", name(Kind::CmId, id), name(Kind::CmChannel, channel));
    }

    fn rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> c_int
    |result, details| {
        details.minus_one(result);
        if details.succeeded() && !event.is_null() {
            // SAFETY: the call succeeded and has filled it.
            let event = unsafe { &**event };
            counters::count(Outcome::CmEvent(event.event, event.status));
            let kind = verbena_coverage::label::cm_event(event.event);
            details.with(format_args!("{kind} {}", name(Kind::CmId, event.id)));
            if event.status != 0 {
                details.with(format_args!("status={}", event.status));
            }
        }
        arguments!(details, "{}", name(Kind::CmChannel, channel));
    }

    fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int |result, details| {
        let _ = event;
        details.minus_one(result);
    }

    fn rdma_getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const c_void, found: *mut *mut c_void
    ) -> c_int |result, details| {
        // Some versions return the codes of getaddrinfo(3), which have no `errno`.
        details.minus_one(result.max(-1));
        if details.text {
            // SAFETY: null, or strings of the program.
            arguments!(details, "{}, {}", unsafe { string(node) }, unsafe { string(service) });
        }
    }

    fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut c_void) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_resolve_addr(
        id: *mut rdma_cm_id, source: *mut c_void, destination: *mut c_void, timeout: c_int
    ) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, timeout={timeout} ms", name(Kind::CmId, id));
    }

    fn rdma_resolve_route(id: *mut rdma_cm_id, timeout: c_int) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, timeout={timeout} ms", name(Kind::CmId, id));
    }

    fn rdma_create_qp(id: *mut rdma_cm_id, pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {}", name(Kind::CmId, id), name(Kind::Pd, pd));
    }

    fn rdma_create_qp_ex(id: *mut rdma_cm_id, init: *mut ibv_qp_init_attr_ex) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_create_srq(id: *mut rdma_cm_id, pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {}", name(Kind::CmId, id), name(Kind::Pd, pd));
    }

    fn rdma_create_srq_ex(id: *mut rdma_cm_id, init: *mut ibv_srq_init_attr_ex) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_connect(id: *mut rdma_cm_id, parameters: *mut c_void) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_establish(id: *mut rdma_cm_id) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, backlog={backlog}", name(Kind::CmId, id));
    }

    fn rdma_accept(id: *mut rdma_cm_id, parameters: *mut c_void) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {length} B", name(Kind::CmId, id));
    }

    fn rdma_reject_ece(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {length} B", name(Kind::CmId, id));
    }

    fn rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, {}", name(Kind::CmId, id), words::event(event));
    }

    fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_join_multicast(id: *mut rdma_cm_id, address: *mut c_void, context: *mut c_void) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_join_multicast_ex(
        id: *mut rdma_cm_id, attributes: *mut c_void, context: *mut c_void
    ) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_leave_multicast(id: *mut rdma_cm_id, address: *mut c_void) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_set_option(
        id: *mut rdma_cm_id, level: c_int, option: c_int, value: *mut c_void, length: size_t
    ) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}, level={level}, option={option}, {length} B", name(Kind::CmId, id));
    }

    fn rdma_init_qp_attr(id: *mut rdma_cm_id, attr: *mut ibv_qp_attr, mask: *mut c_int) -> c_int
    |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }

    fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int |result, details| {
        details.minus_one(result);
        arguments!(details, "{}", name(Kind::CmId, id));
    }
}

/// Describes a new identifier.
fn created(details: &mut crate::call::CallDetails, result: c_int, id: *mut *mut rdma_cm_id) {
    details.minus_one(result);
    if details.succeeded() && !id.is_null() {
        // SAFETY: the call succeeded and has filled it.
        details.with(name(Kind::CmId, unsafe { *id }));
    }
}

/// Destroys an identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    let real = real!(CM, rdma_destroy_id: unsafe extern "C" fn(*mut rdma_cm_id) -> c_int);
    let called = STATE.lock().names.take(Kind::CmId, id.addr());
    call(
        "rdma_destroy_id",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(id) },
        |result, details| {
            details.minus_one(result);
            arguments!(details, "{called}");
        },
    )
}
