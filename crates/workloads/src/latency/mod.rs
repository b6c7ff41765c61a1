//! Latency of single operations.

mod buffer_offsets;
pub mod completion;
pub mod events;
pub mod inline;
pub mod open_loop;
pub mod ping_pong;
