//! Events of the connection manager that rules have in place of a call's success:
//! `rdma_connect 2: rejected`.

use std::fmt;

/// The event by which a call of librdmacm fails, after the call itself has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum CmEvent {
    /// RDMA_CM_EVENT_ADDR_ERROR: no path to the address.
    AddressError = 1,
    /// RDMA_CM_EVENT_ROUTE_ERROR: no answer about the route.
    RouteError = 2,
    /// RDMA_CM_EVENT_REJECTED: no program listens there.
    Rejected = 3,
    /// RDMA_CM_EVENT_UNREACHABLE: the peer has not answered.
    Unreachable = 4,
    /// RDMA_CM_EVENT_MULTICAST_ERROR: the group cannot be joined.
    MulticastError = 5,
}

/// Each event, with its name in rules and the calls that have it.
const EVENTS: [(CmEvent, &str, &[&str]); 5] = [
    (CmEvent::AddressError, "addr-error", &["rdma_resolve_addr"]),
    (CmEvent::RouteError, "route-error", &["rdma_resolve_route"]),
    (CmEvent::Rejected, "rejected", &["rdma_connect"]),
    (CmEvent::Unreachable, "unreachable", &["rdma_connect"]),
    (
        CmEvent::MulticastError,
        "multicast-error",
        &["rdma_join_multicast", "rdma_join_multicast_ex"],
    ),
];

impl CmEvent {
    /// Returns the event of a call with this name in rules; none if the call never has it.
    pub fn read(call: &str, name: &str) -> Option<CmEvent> {
        let found = EVENTS
            .iter()
            .find(|(_, known, calls)| *known == name && calls.contains(&call));
        found.map(|(event, ..)| *event)
    }

    /// Returns the events that a call may have.
    pub fn of(call: &str) -> impl Iterator<Item = CmEvent> {
        let of_call = move |(_, _, calls): &&(CmEvent, &str, &[&str])| calls.contains(&call);
        EVENTS.iter().filter(of_call).map(|(event, ..)| *event)
    }

    /// Returns the event with this number, as the tracer passes it to the adapter.
    pub fn of_number(number: u32) -> Option<CmEvent> {
        let found = EVENTS.iter().find(|(event, ..)| *event as u32 == number);
        found.map(|(event, ..)| *event)
    }
}

impl fmt::Display for CmEvent {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = EVENTS.iter().find(|(event, ..)| event == self);
        to.write_str(found.map_or("", |(_, name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call;

    #[test]
    fn events_are_of_known_calls() {
        for (event, name, calls) in EVENTS {
            assert_eq!(CmEvent::of_number(event as u32), Some(event));
            for of in calls {
                assert!(call::named(of).is_some(), "{of}");
                assert_eq!(CmEvent::read(of, name), Some(event));
                assert!(CmEvent::of(of).any(|one| one == event));
            }
        }
        assert_eq!(CmEvent::read("rdma_connect", "route-error"), None);
        assert_eq!(CmEvent::of_number(0), None);
    }
}
