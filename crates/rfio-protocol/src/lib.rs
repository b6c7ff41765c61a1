//! The RFIO wire protocol, version 2.
//!
//! Everything here is pure: bytes in, values out, and back. No socket, no clock, no file. The written form is
//! `docs/rfio-protocol.md`; where the two differ, one of them has a bug.
//!
//! Contract of every decoder:
//! - it never panics and never allocates more than a small multiple of the bytes it was given;
//! - a length or a count from the wire is compared with its limit and with the bytes that are left before it is used;
//! - trailing bytes are an error, so two readers of one message cannot disagree about it;
//! - whatever it accepts encodes again to the same bytes.
//!
//! The old protocol's interface facts (names, constants, error numbers) are kept where users see them; its 16-bit
//! ids, unchecked sizes and client-asserted user ids are not.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod codec;
pub mod frame;
pub mod handshake;
mod message;
pub mod reply;
pub mod request;
pub mod status;
pub mod types;

pub use codec::Malformed;
pub use frame::{Header, Kind};
pub use reply::Reply;
pub use request::Request;
pub use status::Status;

/// The TCP port on which the service listens when nothing else is said.
pub const DEFAULT_PORT: u16 = 5001;

/// The only version that this crate speaks. Version 1 is the historical protocol, which is not accepted.
pub const VERSION: u16 = 2;
