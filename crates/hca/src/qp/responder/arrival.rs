//! Messages that come in parts.

use crate::receive::Receive;

/// Where a queue of incoming messages stands.
#[derive(Default)]
pub struct Arrival {
    /// After a receiver-not-ready answer: everything is dropped until this packet comes again.
    pub discard_until: Option<u32>,
    /// A message of which a part has come.
    pub current: Option<Arriving>,
}

/// A message of which a part has come.
pub struct Arriving {
    /// Where it goes.
    pub receive: Receive,
    /// Bytes of it that have come.
    pub(super) offset: u64,
}
