//! How far an identifier has come.

/// The states of rdma_cm(7)'s two sides, in the order in which they are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Just made.
    Idle,
    /// Has a source address.
    Bound,
    /// Has a destination, and so a device.
    AddressResolved,
    /// Knows its path.
    RouteResolved,
    /// Takes requests.
    Listening,
    /// Passive: made by a request that is not answered yet.
    Requested,
    /// Active: its request is on the way.
    Connecting,
    /// Active: the reply has come; the program makes its queue pair ready.
    Replied,
    /// Passive: has replied, waits for the peer to be ready.
    Accepted,
    /// Connected.
    Established,
    /// Has asked to disconnect.
    Disconnecting,
    /// The peer has asked to disconnect, or is gone; the program has not said so itself yet.
    Disconnected,
    /// Both sides have disconnected, and packets of the connection may still be on their way (12.9.8.4, TimeWait).
    TimeWait,
    /// Over: its time wait has passed, or it was rejected or unreachable.
    Over,
}

impl Stage {
    /// Whether a peer is being talked to, and may be talked out of it.
    pub fn is_connected(self) -> bool {
        matches!(
            self,
            Stage::Accepted | Stage::Established | Stage::Disconnecting
        )
    }
}
