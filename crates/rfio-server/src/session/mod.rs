//! One connection on the server: bytes to frames, frames to requests, answers to bytes.

pub mod authenticator;
pub mod channel;
pub mod confinement;
pub mod connection;
mod handshake;
pub mod input;
pub mod output;
mod scheduler;
pub mod scopes;
pub mod serving;
pub mod tls_identity;
