//! The RFIO wire protocol, versions 2 to 4.
//!
//! This crate only converts between bytes and values: no socket, no clock, no file. The
//! specification is `docs/rfio-protocol.md`; where the two differ, one of them has a bug.
//!
//! Contract of every decoder:
//! - it never panics and never allocates more than a small multiple of its input's bytes;
//! - a length or count from the wire is compared with its limit and with the remaining bytes before
//!   use;
//! - trailing bytes are an error, so that two decoders of one message cannot disagree about it;
//! - an accepted message encodes to the same bytes again.
//!
//! The old protocol's interface (names, constants, error numbers) is kept where users see it; its
//! 16-bit IDs, unchecked sizes and client-asserted user IDs are not.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod codec;
pub mod frame;
pub mod handshake;
mod message;
pub mod order;
pub mod reply;
pub mod request;
pub mod shown;
pub mod status;
pub mod ticket;
pub mod types;

pub use codec::Malformed;
pub use frame::{Header, Kind};
pub use reply::Reply;
pub use request::Request;
pub use status::Status;

/// The default TCP port of the service.
pub const DEFAULT_PORT: u16 = 5001;

/// The oldest supported version: requests are carried out and answered in order. Version 1 is the
/// historical protocol, which is not accepted.
pub const IN_ORDER: u16 = 2;

/// Requests are carried out concurrently as [`order`] permits, are answered when done, and can be
/// cancelled.
pub const ANY_ORDER: u16 = 3;

/// Adds [`Request::Replace`].
pub const REPLACE: u16 = 4;

/// The newest version that this crate speaks.
pub const NEWEST: u16 = REPLACE;

/// Returns the highest version that both sides support, or `None`.
pub fn common_version(lowest: u16, highest: u16) -> Option<u16> {
    let version = highest.min(NEWEST);
    (version >= lowest.max(IN_ORDER)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        for (lowest, highest, version) in [
            (2, 2, Some(2)),
            (2, 3, Some(3)),
            (3, 3, Some(3)),
            (1, 9, Some(4)),
            (1, 2, Some(2)),
            (0, 1, None),
            (4, 9, Some(4)),
            (5, 9, None),
            (3, 2, None),
        ] {
            assert_eq!(
                common_version(lowest, highest),
                version,
                "{lowest} to {highest}"
            );
        }
    }
}
