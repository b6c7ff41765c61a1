//! Errors of the fabric interface, by cause: the caller, the environment, a peer, or a requested
//! stop.
//!
//! An error is two words long, so that a result is returned in registers: calls in timed code
//! nearly always succeed, and copying five words for a reason took longer than the call.

use crate::Status;
use std::time::Duration;

/// Result of a fabric call.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the fabric interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fabric does not support the operation, transport or option.
    #[error(transparent)]
    Unsupported(Box<Unsupported>),
    /// The caller's request is meaningless.
    #[error(transparent)]
    Invalid(Box<Invalid>),
    /// The adapter or the operating system rejected a call.
    #[error(transparent)]
    Adapter(Box<Refused>),
    /// A work request completed in error.
    #[error(transparent)]
    Completion(Box<Failed>),
    /// No progress within the fabric's time limit.
    #[error(transparent)]
    Stalled(Box<Stalled>),
    /// Another process of the job has ended.
    #[error(transparent)]
    PeerLost(Box<PeerLost>),
    /// The other processes continued without this one, which had hung.
    #[error("the other processes continued without this one, which did not join the exchange")]
    LeftBehind,
    /// The user or the launcher requested a stop.
    #[error("interrupted")]
    Interrupted,
}

/// Details of [`Error::Unsupported`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not supported by {fabric}")]
pub struct Unsupported {
    /// The requested operation or option.
    pub what: String,
    /// The fabric's name.
    pub fabric: String,
}

/// Details of [`Error::Invalid`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {reason}")]
pub struct Invalid {
    /// The interface call.
    pub call: &'static str,
    /// The fault, with the offending values.
    pub reason: String,
}

/// Details of [`Error::Adapter`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {reason}")]
pub struct Refused {
    /// The call that failed.
    pub call: String,
    /// The reason given by the operating system or the adapter.
    pub reason: String,
}

/// Details of [`Error::Completion`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("work request {id} on queue pair {pair} completed with {status}")]
pub struct Failed {
    /// The request's identifier.
    pub id: u64,
    /// The queue pair's number.
    pub pair: u32,
    /// Its completion status.
    pub status: Status,
}

/// Details of [`Error::Stalled`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no progress for {} ms while waiting for {what}", waited.as_millis())]
pub struct Stalled {
    /// The awaited event.
    pub what: &'static str,
    /// Time waited.
    pub waited: Duration,
}

/// Details of [`Error::PeerLost`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lost process {rank} of the job: {reason}")]
pub struct PeerLost {
    /// Its rank.
    pub rank: usize,
    /// How the loss was detected.
    pub reason: String,
}

impl Error {
    /// Creates [`Error::Unsupported`].
    #[cold]
    pub fn unsupported(what: impl Into<String>, fabric: impl Into<String>) -> Error {
        Error::Unsupported(Box::new(Unsupported {
            what: what.into(),
            fabric: fabric.into(),
        }))
    }

    /// Creates [`Error::Invalid`].
    #[cold]
    pub fn invalid(call: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid(Box::new(Invalid {
            call,
            reason: reason.into(),
        }))
    }

    /// Creates [`Error::Adapter`].
    #[cold]
    pub fn adapter(call: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Adapter(Box::new(Refused {
            call: call.into(),
            reason: reason.into(),
        }))
    }

    /// Creates [`Error::Completion`].
    #[cold]
    pub fn completion(id: u64, pair: u32, status: Status) -> Error {
        Error::Completion(Box::new(Failed { id, pair, status }))
    }

    /// Creates [`Error::Stalled`].
    #[cold]
    pub fn stalled(what: &'static str, waited: Duration) -> Error {
        Error::Stalled(Box::new(Stalled { what, waited }))
    }

    /// Creates [`Error::PeerLost`].
    #[cold]
    pub fn peer_lost(rank: usize, reason: impl Into<String>) -> Error {
        Error::PeerLost(Box::new(PeerLost {
            rank,
            reason: reason.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_fits_two_registers() {
        assert_eq!(size_of::<Result<()>>(), 2 * size_of::<usize>());
    }
}
