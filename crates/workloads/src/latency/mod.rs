//! Latency of single operations.

pub mod completion;
pub mod events;
pub mod inline;
pub mod ping_pong;
