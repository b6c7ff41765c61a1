//! Knowing each other: shared secrets, tickets, tags on frames, TLS, and the kernel's word on one host.

pub mod compare;
pub mod peer;
pub mod proof;
pub mod secrets;
pub mod tags;
pub mod ticket;
pub mod tls;
