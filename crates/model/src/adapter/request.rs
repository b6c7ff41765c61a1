//! Work requests of the model: sizes and callbacks.

use super::model::AdapterModel;
use super::operation::{Kind, MemoryLocation, Placement, Transport};
use super::pair::Pair;
use crate::mpi::Notice;
use crate::profile::BlueFlame;
use std::rc::Rc;

/// A callback.
pub type Action = Box<dyn FnOnce()>;

/// A work request.
pub struct Request {
    /// Operation.
    pub kind: Kind,
    /// Bytes moved.
    pub bytes: u64,
    /// Location of the payload.
    pub placement: Placement,
    /// Local memory.
    pub local: MemoryLocation,
    /// Remote memory; for a send the receive buffer.
    pub remote: MemoryLocation,
    /// Receiver of a datagram.
    pub to: Option<Rc<Pair>>,
    /// Called when the last byte is visible at the target, including the receive completion if
    /// there is one.
    pub placed: Option<Action>,
    /// Told to the program of the target's queue pair at the same time.
    pub notice: Option<Notice>,
    /// Called when the requester's completion is visible.
    pub completed: Option<Action>,
}

impl Request {
    /// Creates a request without callbacks.
    pub fn new(kind: Kind, bytes: u64, placement: Placement) -> Request {
        Request {
            kind,
            bytes,
            placement,
            local: MemoryLocation::default(),
            remote: MemoryLocation::default(),
            to: None,
            placed: None,
            notice: None,
            completed: None,
        }
    }

    /// Returns the bytes of the work queue entry: control or next segment 16, address 16 or 48,
    /// data segment 16 or an inline header and the data.
    pub fn entry_bytes(&self, transport: Transport) -> u64 {
        let address = match (self.kind, transport) {
            (_, Transport::Datagram) => 48,
            (Kind::Send, _) => 0,
            (Kind::Atomic, _) => 32,
            _ => 16,
        };
        let data = match self.placement {
            Placement::Reference => 16,
            Placement::Inline => (4 + self.bytes).next_multiple_of(16),
        };
        16 + address + data
    }
}

impl AdapterModel {
    /// Returns whether a request travels inside the doorbell when it is posted alone.
    pub fn takes_inside(&self, request: &Request, transport: Transport) -> bool {
        let send = &self.profile.send;
        let chosen = match send.blueflame_takes.unwrap_or_default() {
            BlueFlame::Any => true,
            BlueFlame::Inline => request.placement == Placement::Inline,
        };
        let limit = send.blueflame.map_or(0, |bytes| bytes.0);
        chosen && request.entry_bytes(transport) <= limit
    }
}
