//! The states of an identifier.

/// The states of both sides of rdma_cm(7), in the order in which they are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// New.
    Idle,
    /// Has a source address.
    Bound,
    /// Active: waits for an interface with the address of its destination.
    Resolving,
    /// Has a destination, and so a device.
    AddressResolved,
    /// Has a path.
    RouteResolved,
    /// Accepts requests.
    Listening,
    /// Passive: created by a request that has no answer yet.
    Requested,
    /// Active: the request was sent.
    Connecting,
    /// Active: the REP has arrived; the program makes its queue pair ready.
    Replied,
    /// Passive: the REP was sent; waits for the RTU.
    Accepted,
    /// Connected.
    Established,
    /// A DREQ was sent.
    Disconnecting,
    /// The peer has sent a DREQ, or is dead; the program has not disconnected yet.
    Disconnected,
    /// Both sides have disconnected, and packets of the connection may be in flight (12.9.8.4,
    /// TimeWait).
    TimeWait,
    /// Over: its time wait has passed, or it was rejected or unreachable.
    Over,
}

impl ConnectionState {
    /// Returns whether there is a connection to be ended.
    pub fn is_connected(self) -> bool {
        matches!(
            self,
            ConnectionState::Accepted
                | ConnectionState::Established
                | ConnectionState::Disconnecting
        )
    }
}
