//! The client of the file service: addresses, connections, copies. All are based on [`connection`].
//!
//! It is the safe library under the tools, the C library and the Python module.

mod address;
mod area;
pub mod backoff;
mod blocks;
pub mod bounds;
pub mod connection;
pub mod copy;
mod data;
mod error;
pub mod fork_guard;
mod input;
pub mod open_flags;
pub mod options;
mod session;
mod session_pool;
mod stream;

pub use address::{Address, Location};
pub use connection::MultiplexedConnection;
pub use error::Error;
pub use options::Options;
