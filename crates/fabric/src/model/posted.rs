//! Send requests in flight.

use crate::completion::Status;
use crate::in_process::Segment;
use crate::operation::{Operation, Signal};
use std::cell::{Cell, RefCell};

/// A request in flight.
pub(super) struct Posted {
    /// Sequence number in the queue pair.
    pub number: u64,
    pub id: u64,
    pub operation: Operation,
    pub local: Vec<Segment>,
    /// Inline data, or the data of a message that completed before it was placed.
    pub payload: RefCell<Option<Vec<u8>>>,
    pub signal: Signal,
    /// The receiving queue pair of a datagram, or the shared receive queue of XRC.
    pub target: Option<u32>,
    /// Status, once it has taken effect.
    pub status: Cell<Option<Status>>,
    /// Whether the model has reported its completion.
    pub completed: Cell<bool>,
}

impl Posted {
    /// Returns whether it consumes a receive request at the peer.
    pub fn is_received(&self) -> bool {
        matches!(
            self.operation,
            Operation::Send | Operation::SendImmediate { .. } | Operation::WriteImmediate { .. }
        )
    }
}
