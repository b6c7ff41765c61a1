//! RoCEv2: how queue pairs reach those of other hosts, by packets over UDP port 4791 (annex A17).
//!
//! The contract: what leaves and what is taken are the packets that every RoCEv2 adapter knows, nothing private at port 4791
//! (but where somebody else has it, adapters like this one find each other at a port of their own); the ICRC
//! is always made and always checked; the rules of order, acknowledgement and retry are `verbena-transport`'s. Nothing in
//! a packet is believed before it is checked, and what cannot be is dropped without an answer.
//!
//! - [`path`]: from which address of ours to which of theirs; the sockets that send.
//! - [`train`]: packets of one queue pair that leave together.
//! - [`pool`]: port 4791, which all processes of a user share.
//! - [`port`]: what a process has of it, and what it waits on.
//! - [`residence`]: the ports that stand in for it where somebody else has it.
//! - [`inquiry`]: whether one of us is found at one of those.
//! - [`receive`]: which queue pair a packet is for.
//! - [`steering`]: which process of those that share the port a packet goes to.
//! - [`group`]: which of its groups a process has joined.
//! - [`management`]: queue pair 1, which is the host's.
//! - [`allow`]: whose packets are heard at all.
//! - [`header`]: what a datagram's receive begins with.
//! - [`tunnel`]: what goes over TCP, where UDP does not pass.
//!
//! Who decides: a connection whose destination GID is one of the port's own leads to this host and goes through shared
//! memory as ever; any other goes by packets. Of a datagram its address handle decides alike. The queue pair's two halves
//! are driven in [`crate::qp`], beside those that shared memory has: `qp/send/packets.rs`, `qp/responder/packets.rs`.
//!
//! The law:
//! - A requester's state machine is part of the send queue, a responder's of the receive queue, each under its lock. Both
//!   are gone with the error or reset state, so nothing of theirs touches memory of the program afterwards.
//! - Memory is touched in a section, a packet at a time, under a key that is looked at anew: so who deregisters or revokes
//!   waits for one packet at most, and what is sent again is read again only while its request is not complete.
//! - What was taken is acknowledged before the same queue pair's next request leaves, and before it ends.
//! - The inbox is taken before any lock of a queue pair, and by nobody who holds one.

pub mod allow;
pub mod group;
pub mod header;
pub mod inquiry;
pub mod management;
pub mod pace;
pub mod path;
pub mod pool;
pub mod port;
pub mod receive;
pub mod residence;
mod steering;
pub mod train;
pub mod tunnel;
