//! The requester of a reliable queue pair.
//!
//! **State.** The adapter's send queue ([`ReliableRequesterAccess`]) holds the requests. The first
//! `started` of them have been sent, at least in part; of the oldest, `done` packets are
//! acknowledged. `cursor` is the next packet to make: it is behind `started` during a
//! retransmission. PSNs from `oldest` (not acknowledged) up to `limit` (never sent) are
//! outstanding.
//!
//! ```text
//!   queue:     [done . . . | . . . . | . . . . | not started | ...
//!                    ^oldest     ^cursor   ^limit
//! ```
//!
//! **Timers** wait for an acknowledgement, or for a receiver that was not ready (`recovery`).

mod congestion;
mod losses;
mod receive;
mod recovery;
mod round_trip;
mod transmit;

use verbena_wire::opcode::{Kind, Service};
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn};

use self::congestion::Congestion;
use self::losses::Losses;
use self::recovery::{Peer, Probe, Recovery, Resume, Timer};
use self::round_trip::RoundTrip;
use super::Reliable;
use crate::access::ReliableRequesterAccess;
use crate::completion::Status;
use crate::request::{self, Addressee, MOST_LENGTH, SendRequest};
use crate::retry::{Retries, RetryCount, RnrRetry};
use crate::segment::Segments;

/// Configuration of a requester, set at the transition to ready to send.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// RC or XRC.
    pub service: Reliable,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// The partition.
    pub partition_key: PKey,
    /// The path MTU; the peer's must be equal.
    pub mtu: Mtu,
    /// The PSN of the first packet (`sq_psn`).
    pub initial_psn: Psn,
    /// The acknowledgement timeout (`timeout`).
    pub ack_timeout: AckTimeout,
    /// The number of retries after a loss (`retry_cnt`).
    pub retry_count: RetryCount,
    /// The number of retries when the receiver is not ready (`rnr_retry`).
    pub rnr_retry: RnrRetry,
    /// The limit of outstanding packets, at least 1. rxe uses 128.
    pub window: u32,
    /// The interval of acknowledgement requests within a long message, in packets, at least 1. rxe
    /// uses 64.
    pub acknowledge_every: u32,
}

/// Why a requester cannot execute a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PostError {
    /// The message length is invalid.
    #[error("a message of {0} bytes: at most 2^31, and 8 for atomics, are possible")]
    Length(u32),
    /// The addressee does not fit the service.
    #[error("the addressee does not fit the service")]
    Addressee,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sending,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    at: usize,
    packet: u32,
}

impl Cursor {
    const FIRST: Self = Self { at: 0, packet: 0 };

    /// Returns the same packet's position after the first request has left the queue. A packet of
    /// that request was due for retransmission and has turned out to have arrived.
    fn without_the_first(self) -> Self {
        match self.at.checked_sub(1) {
            Some(at) => Self { at, ..self },
            None => Self::FIRST,
        }
    }
}

/// The requester of a reliable queue pair.
#[derive(Debug)]
pub struct Requester {
    configuration: Configuration,
    started: usize,
    /// Packets of the oldest request that are acknowledged, or responses that are received.
    done: u32,
    cursor: Cursor,
    /// Position of a request whose bytes cannot be read: it fails once all earlier ones are done.
    blocked: Option<usize>,
    oldest: Psn,
    limit: Psn,
    since_ack_request: u32,
    /// The last packet that requested an acknowledgement.
    requested: Option<Psn>,
    retries: Retries,
    recovery: Recovery,
    congestion: Congestion,
    losses: Losses,
    peer: Peer,
    resume: Option<Resume>,
    round_trip: RoundTrip,
    timer: Timer,
    probe: Probe,
    mode: Mode,
}

impl Requester {
    /// Returns a requester that has sent nothing.
    pub fn new(configuration: Configuration) -> Self {
        let psn = configuration.initial_psn;
        Self {
            started: 0,
            done: 0,
            cursor: Cursor::FIRST,
            blocked: None,
            oldest: psn,
            limit: psn,
            since_ack_request: 0,
            requested: None,
            retries: Retries::new(configuration.retry_count, configuration.rnr_retry),
            recovery: Recovery::None,
            congestion: Congestion::new(configuration.window),
            losses: Losses::new(psn),
            peer: Peer::UNKNOWN,
            resume: None,
            round_trip: RoundTrip::default(),
            timer: Timer::Idle,
            probe: Probe::NONE,
            mode: Mode::Sending,
            configuration,
        }
    }

    /// Checks a request before it is appended to the send queue. In the error state the next
    /// `poll_transmit` flushes it.
    ///
    /// # Errors
    ///
    /// The length or addressee is invalid for this queue pair.
    pub fn check(&self, request: &SendRequest) -> Result<(), PostError> {
        let kind = request.operation.kind();
        let length = u64::from(request.length);
        let is_word = matches!(kind, Kind::Atomic | Kind::AtomicWrite);
        let checked = match is_word {
            true => request::check_message(length, 8).and(request::check_word(length)),
            false => request::check_message(length, MOST_LENGTH),
        };
        if checked.is_err() {
            return Err(PostError::Length(request.length));
        }
        match (self.configuration.service, request.addressee) {
            (Reliable::Rc, Addressee::Connected)
            | (Reliable::Xrc, Addressee::SharedReceiveQueue(_)) => Ok(()),
            _ => Err(PostError::Addressee),
        }
    }

    /// Changes timeout and retries, as a drained queue pair may (SQD to SQD), and reloads the
    /// counters.
    pub fn set_retries(&mut self, timeout: AckTimeout, count: RetryCount, rnr: RnrRetry) {
        self.configuration.ack_timeout = timeout;
        self.retries = Retries::new(count, rnr);
    }

    /// Sets the limit of outstanding packets that replaces [`Configuration::window`] while
    /// thousands of packets arrive without a loss.
    pub fn set_wide_window(&mut self, window: u32) {
        self.congestion.set_wide(window);
    }

    /// Handles a congestion notification (CNP): reduces the congestion window.
    pub fn congested(&mut self) {
        self.congestion.notified(self.limit);
    }

    /// Returns the PSN after the last packet that has been sent.
    pub fn sent_until(&self) -> Psn {
        self.limit
    }

    /// Returns whether a packet before this PSN has been sent that the peer has neither
    /// acknowledged nor refused yet.
    pub fn awaits_acknowledgement(&self, until: Psn) -> bool {
        let is_refused = matches!(self.timer, Timer::ReceiverNotReady(_));
        self.started > 0 && self.oldest.precedes(until) && !is_refused
    }

    /// Returns whether the requester is in the error state.
    pub fn has_failed(&self) -> bool {
        self.mode == Mode::Failed
    }

    /// Enters the error state: every request completes with a flush error, in order.
    pub fn flush(&mut self, access: &mut impl ReliableRequesterAccess) {
        self.mode = Mode::Failed;
        self.stop_waiting();
        self.started = 0;
        self.done = 0;
        self.cursor = Cursor::FIRST;
        self.blocked = None;
        self.oldest = self.limit;
        while access.request(0).is_some() {
            access.complete(Status::Flushed);
        }
    }

    /// Completes the oldest request with `status` and flushes the others.
    fn fail(&mut self, status: Status, access: &mut impl ReliableRequesterAccess) {
        if access.request(0).is_some() {
            access.complete(status);
        }
        self.flush(access);
    }

    /// Completes the oldest request, which has been sent, successfully.
    fn finish(&mut self, access: &mut impl ReliableRequesterAccess) {
        self.started -= 1;
        self.done = 0;
        self.cursor = self.cursor.without_the_first();
        self.resume = self.resume.map(Resume::without_the_first);
        self.blocked = self.blocked.and_then(|at| at.checked_sub(1));
        access.complete(Status::Success);
    }

    fn segments(&self, request: &SendRequest) -> Segments {
        Segments {
            mtu: self.configuration.mtu,
            length: request.length,
        }
    }

    fn service(&self) -> Service {
        self.configuration.service.service()
    }
}
