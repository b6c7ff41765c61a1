//! Events that a channel keeps until the program takes them (rdma_get_cm_event(3)).

use crate::abi::{ConnectionParameters, DatagramParameters, EventAnswer};
use zerocopy::{FromZeros, IntoBytes};

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum EventKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    TimewaitExit = 15,
    AddrinfoError = 17,
    User = 18,
    Internal = 19,
}

/// Parameters of an event.
#[derive(Clone, Debug)]
pub enum Parameters {
    /// None.
    None,
    /// Those of a reliable connection.
    Connection(Box<ConnectionParameters>),
    /// Those of a datagram service or multicast group.
    Datagram(Box<DatagramParameters>),
    /// The value of an event that a program has written.
    Argument(u64),
}

/// An event of an identifier.
#[derive(Clone, Debug)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// 0, a negative errno, or the reason of a rejection.
    pub status: i32,
    /// The parameters.
    pub parameters: Parameters,
}

impl Event {
    /// Returns an event without parameters.
    pub fn plain(kind: EventKind, status: i32) -> Event {
        Event {
            kind,
            status,
            parameters: Parameters::None,
        }
    }

    /// Returns the answer to the program that takes the event, for the identifier `id` that the
    /// program knows as `uid`.
    pub fn answer(&self, uid: u64, id: u32) -> EventAnswer {
        let mut answer = EventAnswer {
            uid,
            id,
            event: self.kind as u32,
            status: self.status as u32,
            ..EventAnswer::new_zeroed()
        };
        let bytes = match &self.parameters {
            Parameters::None => &[][..],
            Parameters::Argument(argument) => argument.as_bytes(),
            Parameters::Connection(connection) => connection.as_bytes(),
            Parameters::Datagram(datagram) => datagram.as_bytes(),
        };
        answer.param[..bytes.len()].copy_from_slice(bytes);
        answer
    }
}
