//! Unreliable connections and datagrams (specification 9.8.2, 9.8.3): complete messages are
//! executed, incomplete ones are dropped, and no acknowledgement is sent.

mod connected;
mod datagram;
mod requester;

pub use connected::{ConnectedConfiguration, ConnectedResponder, ReceiveQueue};
pub use datagram::{DatagramConfiguration, DatagramResponder};
pub use requester::{Configuration, PostError, Requester, Service};
