//! IP over InfiniBand (RFC 4391): an IP interface in a network namespace, carried by the verbs of
//! an adapter.
//!
//! [`namespace`] makes the namespace and its interface, a TUN device, in the process of the
//! command. [`engine`] moves packets between the device and the adapter in another process, which
//! keeps the host's network. A TUN device has IP packets only, so `station` resolves addresses
//! itself, by ARP and neighbour discovery; it has no I/O and no clock.
#![deny(unsafe_code)]

mod adapter;
pub mod address;
pub mod administration;
mod arp;
mod checksum;
mod connected;
pub mod connection;
pub mod counters;
pub mod descriptor;
pub mod encapsulation;
pub mod engine;
mod extension;
pub mod fragment;
mod group;
pub mod hardware_address;
mod ip;
pub mod join;
mod lane;
mod management;
mod membership;
pub mod namespace;
mod ndp;
pub mod neighbour;
mod netlink;
mod offload;
mod proc_file;
mod published;
mod rate_limit;
mod receives;
mod segment;
pub mod station;
pub mod sysfs;
mod too_long;
mod transport;
mod tun;
mod unacknowledged;

pub use administration::record::Path;
pub use tun::LONGEST_NAME;
