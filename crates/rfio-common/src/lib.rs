//! Shared by the client and the server of the file service: sockets, the RDMA adapter, random
//! numbers, and properties of local files.

pub mod fabric;
pub mod random;
pub mod socket;
pub mod timestamp_granularity;
pub mod tmpfile;
pub mod writers;

#[doc(hidden)]
pub mod scratch;
