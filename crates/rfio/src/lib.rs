//! Remote file access over RDMA and TCP: the service and its clients.
//!
//! - [`server`] exports directories. Its [`server::engine`] carries out requests and knows no
//!   network; the same engine answers whether data then travel by RDMA or in the control
//!   connection.
//! - [`client`] is the safe library under the tools and the C library.
//! - [`auth`] is the authentication of client and server.
//!
//! The protocol is the crate `verbena-rfio-protocol` and the document `docs/rfio-protocol.md`. The
//! idea of RFIO with data transfer by RDMA writes is from the paper "InfiniBand - Experiences at
//! Forschungszentrum Karlsruhe".

pub mod auth;
pub mod checksum;
pub mod client;
pub mod fabric;
mod nameless;
pub mod server;
mod settled;
pub mod socket;
mod writers;

#[doc(hidden)]
pub mod scratch;
