//! RoCEv2: transport between hosts, by packets over UDP port 4791 (annex A17).
//!
//! Invariant: packets sent and accepted are those that every RoCEv2 adapter knows, with nothing
//! private at port 4791 (where another process has that port, Verbena adapters find each other at
//! ports of their own). The ICRC is always generated and always checked. The rules of order,
//! acknowledgement and retry are those of `verbena-transport`. No field of a packet is trusted
//! before it is checked; a packet that fails a check is dropped without an answer.
//!
//! - [`adapter`]: the adapter that packets are received for, and its queue pairs.
//! - [`path`]: local and remote addresses of a packet.
//! - [`sender`], [`route`]: sending sockets; headers around a packet.
//! - [`tx_batch`]: TX batches, packets of one queue pair sent in one call.
//! - [`shared_port`]: port 4791, shared by all processes of a user.
//! - [`port`]: a process's share of the port.
//! - [`udp_port`]: private ports used when 4791 is taken.
//! - [`port_probe`]: probe for a Verbena adapter at a private port.
//! - [`packet`], [`receive`]: a received packet, and dispatch of packets to queue pairs.
//! - `steering`: dispatch of packets to the processes that share the port.
//! - [`group`]: multicast memberships of a process.
//! - [`management`]: queue pair 1, shared by the host.
//! - [`allow`]: filter on source networks.
//! - [`header`]: the 40 bytes before a received datagram.
//! - [`fallback`]: TCP fallback, where UDP does not pass.
//!
//! A connection whose destination GID belongs to a local port leads to this host and uses shared
//! memory; any other uses packets. For a datagram the address handle decides in the same way. Both
//! halves of a queue pair are driven by the crate `hca`, beside those for shared memory:
//! `qp/send/packets.rs`, `qp/responder/packets.rs`.
//!
//! Locking and lifetime rules:
//! - A requester's state machine is part of the send queue, a responder's of the receive queue,
//!   each under its lock. Both are dropped on entering the error or reset state, so neither touches
//!   the program's memory afterwards.
//! - Memory is accessed in a section, one packet at a time, under a key that is checked each time.
//!   So deregistering or revoking waits for one packet at most, and a retransmission reads memory
//!   only while its request is not complete.
//! - Received requests are acknowledged before the same queue pair's next request is sent, and
//!   before the queue pair enters the error or reset state.
//! - The inbox lock is taken before any queue pair lock, never while one is held.

pub mod adapter;
pub mod allow;
pub mod fallback;
pub mod group;
pub mod header;
pub mod management;
mod management_port;
pub mod pace;
pub mod packet;
pub mod path;
pub mod port;
pub mod port_probe;
pub mod receive;
pub mod route;
pub mod sender;
pub mod shared_port;
mod steering;
pub mod tx_batch;
pub mod udp_port;
