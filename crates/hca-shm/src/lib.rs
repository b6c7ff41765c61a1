//! Objects shared by the processes of a host, and the rules for sharing them.
//!
//! | object | made by | written by | read by |
//! |---|---|---|---|
//! | [`registry`] | the first process | all, by compare-and-swap on slots and blocks | all |
//! | [`context_table`] | its process | its process alone (sealed against others) | every peer |
//! | [`channel`] | the requesting process | each word by exactly one side | the other side |
//! | arena (`verbena_hca_memory`) | its process | itself, peers with a valid key | the same |
//!
//! Nothing read here is trusted: positions are masked, lengths are checked against private bounds,
//! and an invalid value ends the connection with the peer that wrote it, as its death would.

pub mod access;
pub mod channel;
pub mod context_table;
pub mod flight;
pub mod lane;
pub mod lane_flight;
pub mod registry;
pub mod ring;
#[cfg(test)]
mod ring_tests;
pub mod section;
pub mod sleep;
pub mod tombstone;

// The files that the model checker compiles name its atomics `crate::sync`.
use verbena_hca_os::sync;
