//! What goes wrong at the seam, sorted by who must act: the caller, the environment, the peer, or nobody (a stop).
//!
//! An error is as large as two words, so that the result of a call is told in registers: what is posted and polled while a
//! clock runs succeeds nearly always, and copying room for five words of a reason took longer than the call.

use crate::Status;
use std::time::Duration;

/// Result of a call at the seam.
pub type Result<T> = std::result::Result<T, Error>;

/// An error at the seam.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// This fabric has no such operation, transport or option.
    #[error(transparent)]
    Unsupported(Box<Unsupported>),
    /// The caller asked for something that has no meaning.
    #[error(transparent)]
    Invalid(Box<Invalid>),
    /// The adapter or the operating system refused a call.
    #[error(transparent)]
    Adapter(Box<Refused>),
    /// A work request completed in error.
    #[error(transparent)]
    Completion(Box<Failed>),
    /// Nothing happened for as long as the fabric is patient.
    #[error(transparent)]
    Stalled(Box<Stalled>),
    /// Another process of the job is gone.
    #[error(transparent)]
    PeerLost(Box<PeerLost>),
    /// This process hung for so long that the others went on without it.
    #[error("the others went on without this process, which did not come to the exchange")]
    LeftBehind,
    /// The user or the launcher asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Of [`Error::Unsupported`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not supported by {fabric}")]
pub struct Unsupported {
    /// The operation or option asked for.
    pub what: String,
    /// The fabric's name.
    pub fabric: String,
}

/// Of [`Error::Invalid`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {reason}")]
pub struct Invalid {
    /// The call of the seam.
    pub call: &'static str,
    /// What was wrong, with the offending values.
    pub reason: String,
}

/// Of [`Error::Adapter`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {reason}")]
pub struct Refused {
    /// The call that failed.
    pub call: String,
    /// The operating system's or the adapter's reason.
    pub reason: String,
}

/// Of [`Error::Completion`].
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

/// Of [`Error::Stalled`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no progress for {} ms while waiting for {what}", waited.as_millis())]
pub struct Stalled {
    /// What was awaited.
    pub what: &'static str,
    /// For how long.
    pub waited: Duration,
}

/// Of [`Error::PeerLost`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("process {rank} of the job is gone: {reason}")]
pub struct PeerLost {
    /// Its rank.
    pub rank: usize,
    /// How it was noticed.
    pub reason: String,
}

impl Error {
    /// What this fabric does not have.
    #[cold]
    pub fn unsupported(what: impl Into<String>, fabric: impl Into<String>) -> Error {
        Error::Unsupported(Box::new(Unsupported {
            what: what.into(),
            fabric: fabric.into(),
        }))
    }

    /// A request without meaning.
    #[cold]
    pub fn invalid(call: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid(Box::new(Invalid {
            call,
            reason: reason.into(),
        }))
    }

    /// A call that the adapter or the operating system refused.
    #[cold]
    pub fn adapter(call: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Adapter(Box::new(Refused {
            call: call.into(),
            reason: reason.into(),
        }))
    }

    /// A work request that failed.
    #[cold]
    pub fn completion(id: u64, pair: u32, status: Status) -> Error {
        Error::Completion(Box::new(Failed { id, pair, status }))
    }

    /// A wait without progress.
    #[cold]
    pub fn stalled(what: &'static str, waited: Duration) -> Error {
        Error::Stalled(Box::new(Stalled { what, waited }))
    }

    /// A process that is gone.
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
