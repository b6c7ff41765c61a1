//! One connection on the server: bytes to frames, frames to requests, answers to bytes.

pub mod authenticator;
mod channel;
pub mod confinement;
pub mod connection;
mod handshake;
mod input;
mod output;
mod scheduler;
mod scopes;
pub(crate) mod serving;
mod tls_identity;
