//! The InfiniBand transport as state machines without I/O and without a clock: chapter 9 of the
//! InfiniBand Architecture Specification, volume 1.
//!
//! **Structure.** A queue pair consists of an independent requester and responder. Each takes
//! packets (`handle`), produces packets (`poll_transmit`, into the caller's buffer) and, if it uses
//! timers, reports the next deadline (`next_timeout`). They access adapter resources (work queues,
//! memory, keys, completions) through [`RequesterAccess`], [`ReliableRequesterAccess`] and
//! [`ResponderAccess`]; payload moves directly between packet and memory, without a copy in this
//! crate.
//!
//! | | requester | responder |
//! |---|---|---|
//! | RC, XRC | [`reliable::Requester`] | [`reliable::Responder`] |
//! | UC | [`unreliable::Requester`] | [`unreliable::ConnectedResponder`] |
//! | UD | [`unreliable::Requester`] | [`unreliable::DatagramResponder`] |
//!
//! **Contract.**
//! - After each call that may have changed something, call `poll_transmit` until it returns `None`,
//!   then read `next_timeout`. Times are monotonic.
//! - Each request completes exactly once, in the order of posting, even if the network loses,
//!   duplicates or reorders packets.
//! - Memory is bounded: the adapter limits its queues, the configuration PSN window and responder
//!   resources.
//! - No packet causes a panic. Invalid packets are dropped, or refused with the NAK that the
//!   specification names.
//!
//! **Shared with other paths.** The rules do not depend on packets, and every path calls them:
//! [`state`] (queue pair states and attributes of each transition), [`request`] (operations of each
//! service, lengths, packet numbers), [`order`] (fence, limits of reads and atomics), [`retry`]
//! (reaction to an answer), [`assembly`] (parts of a message, receives), [`datagram`] (which are
//! dropped), [`fault`] (responder faults and consequences), [`completion`] (statuses).

#![forbid(unsafe_code)]

pub mod assembly;
pub mod completion;
pub mod datagram;
pub mod fault;
pub mod order;
pub mod reliable;
pub mod request;
pub mod retry;
pub mod segment;
pub mod state;
pub mod unreliable;

mod access;
mod disposition;
mod message;
mod packets;
mod time;

pub use access::{
    Access, AccessError, AtomicOperation, InvalidateError, LocalError, MemoryError, Receive,
    Region, ReliableRequesterAccess, RequesterAccess, ResponderAccess, Taken,
};
pub use disposition::{Disposition, Dropped};
pub use time::Instant;
