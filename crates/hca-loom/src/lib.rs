//! Model checks of the adapter's shared-memory algorithms: the very files of `hca`, compiled with
//! loom's atomics.
//!
//! Run by `cargo test -p verbena-hca-loom --release`. Each test names the fault that it would find.
//! Rings have four cells here instead of thousands, because the checker tries every interleaving.

// The files refer to modules of `hca` that this crate does not have.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod sync;

#[path = "../../hca/src/shm/access.rs"]
pub mod access;
#[path = "../../hca/src/biased_lock.rs"]
pub mod biased_lock;
#[path = "../../hca/src/process/flight.rs"]
pub mod flight;
#[path = "../../hca/src/shm/ring.rs"]
pub mod ring;
#[path = "../../hca/src/shm/sleep.rs"]
pub mod sleep;
#[path = "../../hca/src/shm/tombstone.rs"]
pub mod tombstone;
