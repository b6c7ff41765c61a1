//! Latency of single operations.

pub mod completion;
pub mod events;
pub mod inline;
pub mod open_loop;
pub mod ping_pong;
mod places;
