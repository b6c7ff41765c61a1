//! Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3).

use std::ptr;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::event::AsyncEvent;

use crate::cq::CqObject;
use crate::handle::Handle;
use crate::qp::QpObject;
use crate::srq::SrqObject;
use crate::{arguments, context, cq, outcome, qp, srq};

/// The object of an event.
enum Element {
    Cq,
    Qp,
    Srq,
    Port,
}

fn element(kind: ibv_event_type) -> Element {
    match kind {
        IBV_EVENT_CQ_ERR => Element::Cq,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => Element::Qp,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Element::Srq,
        _ => Element::Port,
    }
}

/// Waits for the next event, or fails with EAGAIN if `async_fd` does not block.
///
/// # Safety
/// `context` must be null or live; `event` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_get_async_event", unsafe {
        context::of(context).and_then(|handle| {
            let next = handle.object.context.events.next_with(count)?;
            arguments::output(event, to_c(next))
        })
    })
}

/// Counts an event as delivered to its object; its cookie is the object's pointer. Called while the
/// queue of events is locked: the object's destruction first removes its events from the queue and
/// then waits for those counted here, so the pointer is live.
fn count(event: &AsyncEvent) {
    // SAFETY: the object's destruction waits for this event, so the pointer is live.
    unsafe {
        match element(event.kind) {
            Element::Cq => {
                let c = ptr::with_exposed_provenance_mut(event.element);
                if let Ok(handle) = Handle::<CqObject>::of(c) {
                    handle.object.asynchronous_events.count();
                }
            }
            Element::Qp => {
                let c = ptr::with_exposed_provenance_mut(event.element);
                if let Ok(handle) = Handle::<QpObject>::of(c) {
                    handle.object.asynchronous_events.count();
                }
            }
            Element::Srq => {
                let c = ptr::with_exposed_provenance_mut(event.element);
                if let Ok(handle) = Handle::<SrqObject>::of(c) {
                    handle.object.asynchronous_events.count();
                }
            }
            Element::Port => {}
        }
    }
}

fn to_c(event: AsyncEvent) -> ibv_async_event {
    let cookie = event.element;
    let mut c = ibv_async_event {
        event_type: event.kind,
        ..Default::default()
    };
    match element(event.kind) {
        Element::Cq => c.element.cq = ptr::with_exposed_provenance_mut(cookie),
        Element::Qp => c.element.qp = ptr::with_exposed_provenance_mut(cookie),
        Element::Srq => c.element.srq = ptr::with_exposed_provenance_mut(cookie),
        Element::Port => c.element.port_num = cookie as c_int,
    }
    c
}

/// Acknowledges an event.
///
/// # Safety
/// `event` must be null, or an event from [`ibv_get_async_event`] that was not acknowledged yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the caller promises null or an event; its type determines the valid member.
    unsafe {
        let Some(event) = event.as_ref() else { return };
        match element(event.event_type) {
            Element::Cq => cq::acknowledge_asynchronous(event.element.cq),
            Element::Qp => qp::acknowledge_asynchronous(event.element.qp),
            Element::Srq => srq::acknowledge_asynchronous(event.element.srq),
            Element::Port => {}
        }
    }
}
