//! Semantics of the functions, independent of C.

pub mod async_connections;
pub mod caller_buffer;
pub mod file;
pub mod forks;
pub mod read_ahead;
pub mod resolve;
pub mod sessions;
pub mod table;
