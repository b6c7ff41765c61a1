//! Packet capture: reports the adapter's traffic as RoCEv2 packets to a capturer
//! (`verbena capture`).
//!
//! - Without a capturer, a packet or a request costs no more than a read of `is_on`.
//! - A captured process makes a ring in shared memory, hands it to the capturer, and puts packets
//!   into it. It never waits: packets that do not fit are counted as lost (`session`,
//!   `ring`).
//! - The capturer's death or exit closes its socket; then the ring is dropped, and `is_on` is
//!   false.
//! - A ring's contents come from a process that may have been killed at any point or may be
//!   malicious: the capturer checks them like any peer's ([`collect`]).
//!
//! Each packet is reported by one process: on the wire by its sender or receiver, through shared
//! memory by the requester, which knows both the requests and the answers. Packets are reported
//! here:
//!
//! | packets | source file |
//! |---|---|
//! | sent | `roce/tx_batch.rs`, after the kernel was asked to send them |
//! | received | `roce/receive.rs`, before they are checked |
//! | equivalent to shared-memory requests | `qp/send/capture.rs` of the crate `hca` |

pub mod collect;
mod ring;
mod session;

pub use session::Capture;

use crate::observed::{self, CAPTURED};
use std::sync::Arc;
use verbena_hca_os::singleton::Singleton;
use verbena_wire::roce::Route;

/// The capture of this process.
static CURRENT: Singleton<Capture> = Singleton::none();

/// Returns whether packets are to be captured.
#[inline(always)]
pub fn is_on() -> bool {
    observed::is(CAPTURED)
}

/// A packet's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Sent.
    Sent,
    /// Received intact.
    Received,
    /// Received with a wrong ICRC.
    Damaged,
}

/// Captures a packet: its route, and the data that a UDP socket carries, from the BTH to the ICRC.
/// `time` is that of [`verbena_hca_os::clock::wall`].
#[cold]
pub fn record_packet(seen: Seen, time: u64, route: &Route, data: &[u8]) {
    if let Some(capture) = CURRENT.get() {
        capture.record_packet(seen, time, route, data);
    }
}

/// Sets the capture that packets are reported to.
pub fn set(capture: Arc<Capture>) {
    CURRENT.set(capture);
}

/// Ends the capture in a forked child. Async-signal-safe.
pub fn forget() {
    CURRENT.abandon();
    observed::set(CAPTURED, false);
}
