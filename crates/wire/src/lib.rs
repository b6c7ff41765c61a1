//! RoCEv2 and InfiniBand packet formats.
//!
//! **Contract.** Parses and writes packets. No I/O, no allocation, no clock, no `unsafe`. Received
//! bytes are not trusted: `parse` returns a value, or an [`Error`] with the reason and the byte
//! offset, and never panics. `emit` writes into the caller's buffer and refuses a short one before
//! it writes anything.
//!
//! **Round trips.** `parse` reads the output of `emit` back as the same value. `emit` reproduces
//! accepted input byte for byte, except for reserved bits and pad bytes, which are ignored on
//! receipt and sent as zero.
//!
//! ```text
//! Ethernet | IPv4 or IPv6 | UDP, port 4791 | BTH | extension headers | payload | pad | ICRC
//!            \__ [ip] __/   \_ [udp] _/      \__ [packet] ________________________/   [icrc]
//!            \_________________________ [roce] ___________________________________________/
//! ```
//!
//! **Source.** InfiniBand Architecture Specification, volume 1: chapter 7 (link headers, ICRC), 8
//! (GRH), 9 (transport headers and opcodes), 12 and 13 (management datagrams, communication
//! management), annexes A14 (XRC), A17 (RoCEv2), A19 (FLUSH, ATOMIC WRITE). Field layouts were
//! compared with Linux (`ib_pack.h`, `rxe_hdr.h`, `ibta_vol1_c12.h`).
//!
//! `verbena-transport` implements the protocol: order, acknowledgement, retry.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod cursor;
mod emit_error;
mod error;
mod ids;
mod mtu;
mod psn;
mod timer;

pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod deth;
pub mod feth;
pub mod grh;
pub mod icrc;
pub mod immediate;
pub mod ip;
pub mod mad;
pub mod middles;
pub mod opcode;
pub mod packet;
pub mod reth;
pub mod roce;
pub mod udp;
pub mod xrceth;

pub use emit_error::EmitError;
pub use error::Error;
pub use ids::{Gid, Lid, PKey, QKey, Qpn, RKey, SrqNumber};
pub use mtu::Mtu;
pub use psn::Psn;
pub use timer::{AckTimeout, RnrTimer};
