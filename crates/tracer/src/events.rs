//! Completion channels and asynchronous events.

use libc::{c_int, c_uint, c_void};
use verbena_abi::*;
use verbena_coverage::outcome::Outcome;

use crate::call::{CallDetails, arguments, ends, verbs};
use crate::names::Kind;
use crate::text::name;
use crate::{counters, words};

verbs! {
    fn ibv_create_comp_channel(
        context: *mut ibv_context) -> *mut ibv_comp_channel |channel, details| {
        details.object(Kind::Channel, channel);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, context: *mut *mut c_void) -> c_int
    |result, details| {
        details.minus_one(result);
        if details.succeeded() && !cq.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(name(Kind::Cq, unsafe { *cq }));
        }
        let _ = context;
        arguments!(details, "{}", name(Kind::Channel, channel));
    }

    fn ibv_get_async_event(
        context: *mut ibv_context, event: *mut ibv_async_event) -> c_int |result, details| {
        details.minus_one(result);
        if details.succeeded() && !event.is_null() {
            // SAFETY: the call succeeded and has filled it.
            let event = unsafe { &*event };
            counters::count(Outcome::Event(event.event_type as i32));
            happened(details, event);
        }
        arguments!(details, "{}", name(Kind::Context, context));
    }
}

ends! {
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) of Kind::Channel
}

/// Appends the type of an event and the object it is about.
fn happened(details: &mut CallDetails, event: &ibv_async_event) {
    details.with(words::event(event.event_type));
    // SAFETY: the type determines the valid member (ibv_get_async_event(3)).
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => details.with(name(Kind::Cq, event.element.cq)),
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                details.with(name(Kind::Srq, event.element.srq));
            }
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                details.with(name(Kind::Qp, event.element.qp));
            }
            IBV_EVENT_DEVICE_FATAL | IBV_EVENT_WQ_FATAL => {}
            _ => details.with(format_args!("port={}", event.element.port_num)),
        }
    }
}

macro_rules! acknowledged {
    ($($verb:ident($($argument:ident: $type:ty),*) |$details:ident| $describe:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $verb($($argument: $type),*) {
            let real = crate::real::real!($verb: unsafe extern "C" fn($($type),*));
            // SAFETY: the program's call, with its own arguments.
            crate::call::call(stringify!($verb), || unsafe { real($($argument),*) }, |(),
                $details| $describe);
        }
    )*};
}

acknowledged! {
    ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) |details| {
        arguments!(details, "{}, {count}", name(Kind::Cq, cq));
    }

    ibv_ack_async_event(event: *mut ibv_async_event) |details| {
        // SAFETY: null, or an event that the program got from the library.
        let kind = unsafe { event.as_ref() }.map_or("NULL".into(),
            |event| words::event(event.event_type).to_string());
        arguments!(details, "{kind}");
    }
}
