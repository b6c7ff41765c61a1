//! The out-of-band exchange: a TCP hub that collects bytes from a set of processes and sends all of
//! them to each, in the order of ranks.
//!
//! A connection starts with a handshake ([`handshake`]) in which each side proves that it knows the
//! job's secret; other clients and other listeners are ignored. Then come frames: 4 bytes length,
//! then the body. A process's frame is the count of members (4), their ranks (4 each, ascending),
//! the process's bytes. A reply is a kind byte, then for `GATHERED` each member's bytes preceded by
//! their length, for `LOST` the rank of the lost process, for `REFUSED` the reason as text, for
//! `LEFT_BEHIND` nothing. All numbers are little-endian. No input is trusted: lengths are limited,
//! ranks checked, and a process that does not read its replies is given up.
//!
//! A process that is alive but does not arrive is *absent* once the others have waited long enough:
//! its part is empty from then on, so that they can finish without it.

mod connection;
mod frame;
mod handshake;
mod hub;
mod pending_connections;
#[cfg(test)]
mod tests;

pub use connection::{AT_EXCHANGE, Connection, Rendezvous, connect_to_hub};
pub use handshake::Secret;
pub use hub::Hub;
