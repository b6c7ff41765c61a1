//! Failures that rules plant: an event in place of a call's success (`verbena run --fault
//! 'rdma_connect 2: rejected'`), and an adapter that has failed.
//!
//! The tracer counts the calls and decides. It plants the event for the thread that makes the call,
//! whose command takes it, so that librdmacm sees the event as the kernel's. The command records
//! that before the program can see the event, and perhaps exit.

use crate::command::Command;
use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind};
use crate::message;
use crate::service::Service;
use crate::state::State;
use std::cell::Cell;
use std::sync::OnceLock;
use verbena_faults::cm::CmEvent;
use verbena_faults::process_rules::ProcessRules;
use verbena_hca_os::errno::{Errno, Result};

/// An event by which a call is to fail, and its rule.
#[derive(Clone, Copy)]
pub struct Planted {
    /// The event.
    pub event: CmEvent,
    /// The rule's number.
    pub rule: usize,
    /// The call's number.
    pub count: u64,
}

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Plants an event for the next command of this thread that may have it, or none.
pub fn plant(planted: Option<Planted>) {
    PLANTED.set(planted);
}

/// Records that a rule has fired.
fn note(planted: Planted) {
    static OWN: OnceLock<Option<ProcessRules>> = OnceLock::new();
    if let Some(own) = OWN.get_or_init(ProcessRules::from_env) {
        own.note(planted.rule, 0, planted.count);
    }
}

/// Takes the planted event if it is one of these.
pub(crate) fn take(wanted: &[CmEvent]) -> Option<Event> {
    let planted = PLANTED.get().filter(|one| wanted.contains(&one.event))?;
    PLANTED.set(None);
    note(planted);
    let (kind, status) = match planted.event {
        CmEvent::AddressError => (EventKind::AddrError, -libc::ETIMEDOUT),
        CmEvent::RouteError => (EventKind::RouteError, -libc::ETIMEDOUT),
        CmEvent::Rejected => (EventKind::Rejected, message::INVALID_SERVICE as i32),
        CmEvent::Unreachable => (EventKind::Unreachable, -libc::ETIMEDOUT),
        CmEvent::MulticastError => (EventKind::MulticastError, -libc::ETIMEDOUT),
    };
    Some(Event::plain(kind, status))
}

/// Ends a request for a connection by a planted event, if there is one.
///
/// # Errors
/// Those of the request.
pub(crate) fn ends_connect(command: &Command<'_>, state: &mut State, id: u32) -> Result<bool> {
    let identifier = state.identifier(command.channel, id)?;
    if identifier.state != ConnectionState::RouteResolved {
        return Err(Errno::EINVAL);
    }
    // A datagram service is never rejected.
    let possible: &[CmEvent] = match identifier.space.is_datagram() {
        true => &[CmEvent::Unreachable],
        false => &[CmEvent::Rejected, CmEvent::Unreachable],
    };
    let Some(event) = take(possible) else {
        return Ok(false);
    };
    identifier.state = ConnectionState::Over;
    state.raise(id, event);
    Ok(true)
}

/// Tells the program that the adapter has failed: RDMA_CM_EVENT_DEVICE_REMOVAL for each identifier
/// that is bound to it.
pub(crate) fn adapter_has_failed() {
    let Some(service) = Service::existing() else {
        return;
    };
    let mut state = service.lock();
    let bound: Vec<u32> = state
        .identifiers
        .iter()
        .filter(|(_, identifier)| identifier.has_device())
        .map(|(number, _)| number)
        .collect();
    for number in bound {
        state.raise(number, Event::plain(EventKind::DeviceRemoval, 0));
    }
}
