//! What became of a packet: for counters, and for the adapter to act upon.

use crate::fault::Consequence;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a refusal may ask for a change of state or an event"]
pub enum Disposition {
    /// It was expected and took effect.
    Accepted,
    /// It, or what it answers, was seen before. Answered again if the specification says so.
    Duplicate,
    /// It had no effect and gets no answer.
    Dropped(Dropped),
    /// A responder found a fault in it; the consequence is carried out but for event and state, which are the
    /// adapter's.
    Refused(Consequence),
    /// A requester learned of a loss, and sends again.
    Retry,
    /// A requester learned that its receiver was not ready, and waits.
    ReceiverNotReady,
    /// A requester has failed: its requests are completed in error. The queue pair goes to the error state.
    Failed,
}

/// Why a packet was dropped silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The queue pair does not answer in its state.
    State,
    /// Of another transport service, or a response where requests belong.
    Service,
    /// Of another partition.
    PartitionKey,
    /// Its Q_Key is not the queue pair's.
    QueueKey,
    /// Outside the PSN window.
    Window,
    /// Behind a gap that was told of already.
    Gap,
    /// A duplicate read or atomic of which nothing is kept, or of other bounds (class D).
    Forgotten,
}
