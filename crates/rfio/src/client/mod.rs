//! The client: addresses, sessions, files.

pub mod address;
mod area;
pub mod backoff;
pub mod bounds;
pub mod copy;
mod data;
pub mod error;
pub mod exchange;
pub mod file;
pub mod lineage;
pub mod open_flags;
pub mod options;
pub mod pool;
pub mod pull;
pub mod push;
pub mod session;
mod stream;
pub mod transfer;
mod whole_checksum;

pub use address::{Address, Location};
pub use error::Error;
pub use exchange::Exchange;
pub use file::RemoteFile;
pub use options::Options;
pub use pool::SessionPool;
pub use session::Session;
