//! Common parts of the in-process fabrics: memory with keys and permissions, transfers between
//! regions, and the rejection of meaningless requests.

mod bytes;
mod registered;
mod request;

pub(crate) use bytes::Bytes;
pub(crate) use registered::{Registered, Segment};
pub(crate) use request::{refuse, segments};

/// Bytes of header space before a datagram.
pub(crate) const DATAGRAM_HEADER: usize = 40;
