//! The kernel's interface for management datagrams (`/dev/infiniband/umad<N>`, `issm<N>`, sysfs) on
//! a fabric that a process keeps.
//!
//! - [`protocol`]: messages between programs and the process.
//! - [`Files`]: open device files: agents, transactions, timeouts. No I/O.
//! - [`tree`]: the files of sysfs of a node.
//! - [`mirror`]: a copy of them in a directory of the user.
//! - [`faults`]: names and messages of faults by command.
//! - `adapters`: adapters of programs: states of ports for them, their traffic for the counters.
//! - `memberships`: multicast memberships of programs, which end with them.
//! - [`Server`]: the process: sockets and timers around these.
//!
//! The kernel's behaviour is that of `drivers/infiniband/core/user_mad.c`, `mad.c` and
//! `mad_rmpp.c`.

mod adapters;
mod agents;
mod client;
pub mod faults;
mod files;
mod header;
mod memberships;
pub mod mirror;
mod pending;
mod rmpp;
mod server;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;
pub mod tree;

pub use client::{connect, request_fault};
pub use files::{FileId, Files, Output};
pub use server::{Server, ServerError};
pub use verbena_fabric_protocol as protocol;
