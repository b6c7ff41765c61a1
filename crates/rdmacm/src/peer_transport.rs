//! The transport between an identifier and its peer.

use crate::local_stream::LocalStream;
use crate::state_machine::StateMachine;

/// A stream to a peer on this host, MADs to one on another host.
pub enum PeerTransport {
    /// A process of this host.
    Local(Box<LocalStream>),
    /// Another host.
    Remote(Box<StateMachine>),
}

impl PeerTransport {
    /// Returns the stream, if it is one.
    pub fn local_stream(&mut self) -> Option<&mut LocalStream> {
        match self {
            PeerTransport::Local(local_stream) => Some(local_stream),
            PeerTransport::Remote(_) => None,
        }
    }

    /// Returns the exchange of MADs, if it is one.
    pub fn state_machine(&mut self) -> Option<&mut StateMachine> {
        match self {
            PeerTransport::Local(_) => None,
            PeerTransport::Remote(machine) => Some(machine),
        }
    }
}
