//! What the in-process fabrics have in common, whatever their time is like: memory with keys and permissions, how bytes
//! move between regions, and which requests have no meaning.

mod bytes;
mod registered;
mod request;

pub(crate) use bytes::Bytes;
pub(crate) use registered::{Registered, Segment};
pub(crate) use request::{refuse, segments};

/// Bytes of header space in front of a datagram.
pub(crate) const DATAGRAM_HEADER: usize = 40;
