//! Completions and completion queues.

use crate::error::{Error, Result};
use std::fmt;
use verbena_verbs::WorkStatus;

/// A completion's status, numbered as in verbs (`enum ibv_wc_status`); unknown numbers are
/// preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u32);

impl Status {
    /// Success.
    pub const SUCCESS: Status = Status(0);
    /// The local buffer is too small or out of bounds.
    pub const LOCAL_LENGTH: Status = Status(1);
    /// A local key or permission is wrong.
    pub const LOCAL_PROTECTION: Status = Status(4);
    /// Flushed because the queue pair is in the error state.
    pub const FLUSHED: Status = Status(5);
    /// The responder rejected the request.
    pub const REMOTE_INVALID: Status = Status(9);
    /// The responder's key or bounds check failed.
    pub const REMOTE_ACCESS: Status = Status(10);
    /// No acknowledgement after all retries.
    pub const RETRY_EXCEEDED: Status = Status(12);
    /// The receiver was not ready after all retries.
    pub const RNR_RETRY_EXCEEDED: Status = Status(13);

    /// Returns whether the request succeeded.
    pub fn is_success(self) -> bool {
        self == Status::SUCCESS
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WorkStatus(self.0).fmt(f)
    }
}

/// The kind of a completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompletionKind {
    /// A send-queue request: send, write, read or atomic.
    #[default]
    Initiated,
    /// A receive request consumed by a send.
    Received,
    /// A receive request consumed by a write with immediate data.
    ReceivedWrite,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// The request's identifier.
    pub id: u64,
    /// Status.
    pub status: Status,
    /// Kind of the request; undefined unless the status is success.
    pub kind: CompletionKind,
    /// Bytes received, including the 40 bytes of a datagram's header space; undefined for initiated
    /// requests.
    pub length: u32,
    /// Immediate data, if any.
    pub immediate: Option<u32>,
    /// The queue pair's number.
    pub pair: u32,
    /// For datagrams, the sender's queue pair.
    pub source: u32,
}

impl Completion {
    /// Returns the completion if it succeeded.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Completion`] for any other status.
    pub fn check(self) -> Result<Completion> {
        if self.status.is_success() {
            Ok(self)
        } else {
            Err(Error::completion(self.id, self.pair, self.status))
        }
    }
}

/// How to wait for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Spin on the completion queue.
    #[default]
    Poll,
    /// Arm the queue, poll once more, sleep until its event. The queue must have been created with
    /// events.
    Event,
}

/// A completion queue.
pub trait CompletionQueue {
    /// Polls once: takes at most `into.len()` completions, possibly none.
    async fn poll(&self, into: &mut [Completion]) -> Result<usize>;
    /// Waits for at least one completion and returns their number. `into` must not be empty.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stalled`], [`Error::Interrupted`], [`Error::PeerLost`] or
    /// [`Error::LeftBehind`] as in rule 10, and [`Error::Invalid`] or [`Error::Unsupported`] if the
    /// queue has no events.
    async fn wait(&self, into: &mut [Completion], how: Wait) -> Result<usize>;

    /// Waits for one completion and checks its status.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::wait`], and [`Error::Completion`] if the request failed.
    async fn one(&self, how: Wait) -> Result<Completion> {
        let mut into = [Completion::default()];
        self.wait(&mut into, how).await?;
        into[0].check()
    }

    /// Waits for one completion, checks its status and drops it: all that most steps of a benchmark
    /// need, and the fastest path.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::one`].
    async fn done(&self, how: Wait) -> Result<()> {
        self.one(how).await.map(drop)
    }
}
