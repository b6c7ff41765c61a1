//! Model checks of the adapter's shared-memory algorithms: source files of `hca-os` and `hca-shm`,
//! compiled with loom's atomics.
//!
//! Run by `cargo test -p verbena-hca-loom --release`. Each test names the fault that it would find.
//! Rings have four cells here instead of thousands, because the checker tries every interleaving.

// The files refer to modules that this crate does not have.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod sync;

#[path = "../../hca-shm/src/access.rs"]
pub mod access;
#[path = "../../hca-os/src/biased_lock.rs"]
pub mod biased_lock;
#[path = "../../hca-shm/src/flight.rs"]
pub mod flight;
#[path = "../../hca-shm/src/lane.rs"]
pub mod lane;
#[path = "../../hca-shm/src/lane_flight.rs"]
pub mod lane_flight;
#[path = "../../hca-shm/src/ring.rs"]
pub mod ring;
#[path = "../../hca-shm/src/sleep.rs"]
pub mod sleep;
#[path = "../../hca-shm/src/tombstone.rs"]
pub mod tombstone;
