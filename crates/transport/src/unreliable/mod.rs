//! Unreliable connections and datagrams (specification 9.8.2, 9.8.3): what arrives whole takes effect, what does not is
//! forgotten, and nobody answers.

mod connected;
mod datagram;
mod requester;

pub use connected::{ConnectedConfiguration, ConnectedResponder, ReceiveQueue};
pub use datagram::{DatagramConfiguration, DatagramResponder};
pub use requester::{Configuration, PostError, Requester, Service, Transmitted};
