//! The exchange outside of the adapter: a hub on TCP that collects bytes of a set of processes and gives each of them
//! all, in the order of ranks.
//!
//! A connection begins with a [`greeting`], in which each side proves that it knows the job's secret: whoever else
//! connects, or listens where the hub might, is passed by. Then come frames: 4 bytes length, then the body. A process's
//! frame is the count of members (4), their ranks (4 each, ascending), the process's bytes. A reply is a kind byte, then
//! for `GATHERED` each member's bytes with a length in front, for `LOST` the rank that is gone, for `REFUSED` the words why
//! the hub says no more, for `LEFT_BEHIND` nothing. All numbers little-endian. Nothing that arrives is trusted: lengths are limited, ranks checked,
//! and whoever leaves replies unread is given up.
//!
//! A process that lives and does not come is *absent* once the others have waited long enough: its part is empty from
//! then on, so that they can finish without it.

mod connection;
mod doorway;
mod frame;
mod greeting;
mod hub;
#[cfg(test)]
mod tests;

pub use connection::{AT_EXCHANGE, Connection, Rendezvous, connect_to_hub};
pub use greeting::Secret;
pub use hub::Hub;
