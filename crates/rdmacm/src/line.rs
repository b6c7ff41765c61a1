//! The transport between an identifier and its peer.

use crate::conversation::Conversation;
use crate::correspondence::Correspondence;

/// A stream to a peer on this host, MADs to one on another host.
pub enum Line {
    /// A process of this host.
    Neighbour(Box<Conversation>),
    /// Another host.
    Distant(Box<Correspondence>),
}

impl Line {
    /// Returns the stream, if it is one.
    pub fn conversation(&mut self) -> Option<&mut Conversation> {
        match self {
            Line::Neighbour(conversation) => Some(conversation),
            Line::Distant(_) => None,
        }
    }

    /// Returns the exchange of MADs, if it is one.
    pub fn correspondence(&mut self) -> Option<&mut Correspondence> {
        match self {
            Line::Neighbour(_) => None,
            Line::Distant(correspondence) => Some(correspondence),
        }
    }
}
