//! The result of handling a packet, for counters and for the adapter's reaction.

use crate::fault::Consequence;

/// The result of handling a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a refusal may ask for a change of state or an event"]
pub enum Disposition {
    /// Expected, and executed.
    Accepted,
    /// A duplicate, or a response to an answered request. Answered again if the specification
    /// requires it.
    Duplicate,
    /// Ignored without an answer.
    Dropped(Dropped),
    /// A responder found a fault. It has applied the consequence except for event and state change,
    /// which the adapter must apply.
    Refused(Consequence),
    /// A requester detected a loss and retransmits.
    Retry,
    /// The receiver was not ready; the requester waits.
    ReceiverNotReady,
    /// A requester has failed and completed its requests in error. The queue pair goes to the error
    /// state.
    Failed,
}

/// Why a packet was dropped silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The queue pair does not respond in its state.
    State,
    /// Wrong transport service, or a response in place of a request.
    Service,
    /// Wrong partition.
    PartitionKey,
    /// Its Q_Key differs from the queue pair's.
    QueueKey,
    /// A datagram, and no receive is posted.
    NoReceive,
    /// A datagram that does not fit the receive.
    TooLong,
    /// Outside the PSN window.
    Window,
    /// Behind a gap that was NAKed already.
    Gap,
    /// A duplicate read or atomic whose responder resource is no longer kept, or whose bounds
    /// differ (class D).
    Forgotten,
}
