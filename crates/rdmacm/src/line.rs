//! What an identifier talks over to its peer.

use crate::conversation::Conversation;
use crate::correspondence::Correspondence;

/// A peer of this host is heard over a stream, one of another host by letters.
pub enum Line {
    /// A process of this host.
    Neighbour(Box<Conversation>),
    /// Another host.
    Distant(Box<Correspondence>),
}

impl Line {
    /// The stream, if it is one.
    pub fn conversation(&mut self) -> Option<&mut Conversation> {
        match self {
            Line::Neighbour(conversation) => Some(conversation),
            Line::Distant(_) => None,
        }
    }

    /// The letters, if it is they.
    pub fn correspondence(&mut self) -> Option<&mut Correspondence> {
        match self {
            Line::Neighbour(_) => None,
            Line::Distant(correspondence) => Some(correspondence),
        }
    }
}
