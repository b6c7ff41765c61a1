//! What goes through the adapter, told as RoCEv2 packets to whoever captures them (`verbena capture`).
//!
//! The law:
//! - While nobody captures, all that a packet or a request costs is a look at [`is_on`].
//! - A process that is captured makes a ring in shared memory, hands it to the capturer, and puts packets into it. It
//!   never waits: what finds no room is counted as lost ([`session`], [`ring`]).
//! - The capturer's death, or its end, is the end of its socket; then the ring goes, and [`is_on`] is false.
//! - What the capturer finds in a ring is the word of a process that may have been killed in the midst of it, or that
//!   means harm: it is checked as any peer's ([`collect`]).
//!
//! Each packet is told by one process: on the wire by the one that sends or receives it, through shared memory by the
//! requester, who knows the requests as well as the answers. Where it is told:
//!
//! | packets | told in |
//! |---|---|
//! | as they left | `roce/train.rs`, when the kernel has been asked to send them |
//! | as they came | `roce/receive.rs`, before they are judged |
//! | as they would have been | `qp/send/capture.rs`, beside the requester of shared memory |

pub mod collect;
mod ring;
mod session;

pub(crate) use session::Capture;

use crate::process::CURRENT;
use std::sync::atomic::{AtomicBool, Ordering};
use verbena_wire::roce::Route;

/// Whether this process is captured. Looked at on every way of data, so it says no more than that.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether packets are to be told.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It left.
    Sent,
    /// It came, whole.
    Received,
    /// It came, and its ICRC is wrong.
    Damaged,
}

/// Tells a packet: what it was in, and what a UDP socket was given or gave, from the BTH to the ICRC. `time` is that of
/// [`crate::sys::clock::wall`].
#[cold]
pub(crate) fn tell(seen: Seen, time: u64, route: &Route, data: &[u8]) {
    if let Some(process) = CURRENT.get() {
        process.capture.tell(seen, time, route, data);
    }
}

/// A forked child is not captured. Async-signal-safe.
pub(crate) fn forget() {
    ON.store(false, Ordering::Relaxed);
}
