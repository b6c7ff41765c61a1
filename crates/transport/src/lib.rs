//! The InfiniBand transport as state machines without I/O and without a clock: chapter 9 of the InfiniBand Architecture
//! Specification, volume 1.
//!
//! **Shape.** A queue pair is a requester and a responder that know nothing of each other. Each takes packets
//! (`handle`), gives packets (`poll_transmit`, into the caller's buffer) and, where it waits for something, a time
//! (`next_timeout`). What belongs to the adapter (memory, keys, receive queues, completions) is asked of it through
//! [`RequesterAccess`] and [`ResponderAccess`]; payload goes between the packet and its place without a copy here.
//!
//! | | requester | responder |
//! |---|---|---|
//! | RC, XRC | [`reliable::Requester`] | [`reliable::Responder`] |
//! | UC, UD | [`unreliable::Requester`] | [`unreliable::ConnectedResponder`], [`unreliable::DatagramResponder`] |
//!
//! **Contract.**
//! - After each call that may have changed something, call `poll_transmit` until it gives nothing, then ask
//!   `next_timeout`. Times are monotonic.
//! - Completions are made in the order of posting, each request exactly one, whatever the network does.
//! - Nothing grows without bound: send queue, PSN window and responder resources have the sizes of the configuration.
//! - No packet makes anything panic. What cannot be is dropped, or refused with the NAK that the specification names.
//!
//! **Common to every path.** What a path through shared memory needs as well stands in modules of its own that know no
//! packet: [`state`] (the queue pair's states and what each transition takes), [`retry`] (counters), [`fault`] (what a
//! responder may find wrong and what follows), [`order`] (fence, limit of reads and atomics), [`segment`] and
//! [`assembly`] (messages as packets).

#![forbid(unsafe_code)]

pub mod assembly;
pub mod completion;
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
mod packets;
mod time;

pub use access::{
    Access, AccessError, AtomicError, AtomicOperation, InvalidateError, LocalError, Receive,
    Region, RequesterAccess, ResponderAccess, Taken,
};
pub use disposition::{Disposition, Dropped};
pub use time::Instant;
