//! The adapter as the file service uses it: one open device, and reliable connections that are set up over a session.
//!
//! Everything goes through the C ABI that is loaded at run time, so a real adapter and a software one look alike.

mod adapter;
mod pair;

pub use adapter::Adapter;
pub use pair::{Outcome, Pair, Purpose};

/// Why the fabric cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// A verbs call failed.
    #[error("{0}")]
    Verbs(#[from] verbena_verbs::Error),
    /// A request could not be posted.
    #[error("{0}")]
    Post(#[from] verbena_verbs::PostError),
    /// A request failed.
    #[error("work request {id} ended with {status}")]
    Completion {
        /// The request.
        id: u64,
        /// How it ended.
        status: verbena_verbs::WorkStatus,
    },
    /// No port can carry packets.
    #[error("device {0} has no active port")]
    NoPort(String),
    /// The peer's end makes no sense.
    #[error("the peer's end of the connection is not one: {0}")]
    BadEndpoint(String),
    /// More than there is room for.
    #[error("{length} bytes for a slot of {room}")]
    TooLong {
        /// Bytes.
        length: usize,
        /// Room.
        room: usize,
    },
    /// Data that should lie in registered memory do not.
    #[error("data outside registered memory")]
    Unregistered,
    /// The peer did not do its part in time.
    #[error("{0} did not happen in time")]
    Late(&'static str),
}
