//! An InfiniBand subnet as state: nodes and links, the datagrams of their management, and the
//! agents that answer them. Nothing here does I/O, has a clock or keeps a thread: a datagram goes
//! in at a port, and the ones that programs receive come out.
//!
//! - [`Fabric`]: nodes, ports and links; routes, the agents of subnet and performance management.
//! - [`Manager`]: a small subnet manager with subnet administration.
//! - [`partitions`]: the partitions that it sets.
//! - [`Subnet`]: both together.
//! - [`build`]: a fabric from a topology that other tools print.
//!
//! Numbers of chapters are those of the InfiniBand Architecture Specification, volume 1.

mod agent;
pub mod attribute;
mod build;
mod counters;
#[cfg(test)]
mod deaths;
mod fabric;
mod fault;
mod field;
pub mod mad;
mod manager;
mod multicast;
mod notice;
pub mod partitions;
mod route;
mod sa;
mod subnet;
#[cfg(test)]
mod tests;

pub use build::{BuildError, SMALL, build, small, unusable_lids};
pub use counters::{Counters, Load};
pub use fabric::{
    DEFAULT_P_KEY, DESCRIPTION, End, FIRST_MULTICAST, Fabric, Forwarding, Kind, NO_PORT, Node,
    Port, Tables, UNICAST_LIDS,
};
pub use fault::Fault;
pub use field::Field;
pub use manager::Manager;
pub use route::{PERMISSIVE, Packet};
pub use subnet::{Delivery, Subnet};
