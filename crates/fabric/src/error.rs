//! What goes wrong at the seam, sorted by who must act: the caller, the environment, the peer, or nobody (a stop).

use crate::Status;
use std::time::Duration;

/// Result of a call at the seam.
pub type Result<T> = std::result::Result<T, Error>;

/// An error at the seam.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// This fabric has no such operation, transport or option.
    #[error("{what} is not supported by {fabric}")]
    Unsupported {
        /// The operation or option asked for.
        what: String,
        /// The fabric's name.
        fabric: String,
    },
    /// The caller asked for something that has no meaning.
    #[error("{call}: {reason}")]
    Invalid {
        /// The call of the seam.
        call: &'static str,
        /// What was wrong, with the offending values.
        reason: String,
    },
    /// The adapter or the operating system refused a call.
    #[error("{call} failed: {reason}")]
    Adapter {
        /// The call that failed.
        call: String,
        /// The operating system's or the adapter's reason.
        reason: String,
    },
    /// A work request completed in error.
    #[error("work request {id} on queue pair {pair} completed with {status}")]
    Completion {
        /// The request's identifier.
        id: u64,
        /// The queue pair's number.
        pair: u32,
        /// Its completion status.
        status: Status,
    },
    /// Nothing happened for as long as the fabric is patient.
    #[error("no progress for {} ms while waiting for {what}", waited.as_millis())]
    Stalled {
        /// What was awaited.
        what: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// Another process of the job is gone.
    #[error("process {rank} of the job is gone: {reason}")]
    PeerLost {
        /// Its rank.
        rank: usize,
        /// How it was noticed.
        reason: String,
    },
    /// This process hung for so long that the others went on without it.
    #[error("the others went on without this process, which did not come to the exchange")]
    LeftBehind,
    /// The user or the launcher asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A request without meaning.
    pub fn invalid(call: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid {
            call,
            reason: reason.into(),
        }
    }
}
