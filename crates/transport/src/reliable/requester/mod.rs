//! The requester of a reliable queue pair.
//!
//! **State.** The queue holds the requests that are posted and not complete. Its first `started`
//! requests have PSNs; of each, `done` packets are acknowledged. `cursor` is the next packet to
//! make: it is behind `started` during a retransmission. PSNs from `oldest` (not acknowledged) up
//! to `limit` (never sent) are outstanding.
//!
//! ```text
//!   queue:     [done | done . . | . . . . | . . . . | not started | ...
//!                      ^oldest       ^cursor   ^limit
//! ```
//!
//! **Timers** wait for an acknowledgement, or for a receiver that was not ready (`recovery`).

mod congestion;
mod losses;
mod receive;
mod recovery;
mod round_trip;
mod transmit;

use std::collections::VecDeque;

use verbena_wire::opcode::{Kind, Service};
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn};

use self::congestion::Congestion;
use self::losses::Losses;
use self::recovery::{Peer, Probe, Recovery, Resume, Timer};
use self::round_trip::RoundTrip;
use super::Reliable;
use crate::access::RequesterAccess;
use crate::completion::{SendCompletion, Status};
use crate::order::Outstanding;
use crate::request::{self, Addressee, Answer, MOST_LENGTH, SendRequest};
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
    /// The limit of outstanding reads and atomics (`max_rd_atomic`).
    pub max_rd_atomic: u32,
    /// The limit of outstanding packets, at least 1. rxe uses 128.
    pub window: u32,
    /// The limit of posted requests (`max_send_wr`).
    pub capacity: usize,
}

/// Interval of acknowledgement requests within a long message, in packets, as in rxe.
const ACKNOWLEDGE_EVERY: u32 = 64;

/// Why a request was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PostError {
    /// The send queue is full.
    #[error("the send queue holds {0} requests already")]
    Full(usize),
    /// The message length is invalid.
    #[error("a message of {0} bytes: at most 2^31, and 8 for atomics, are possible")]
    Length(u32),
    /// The addressee does not fit the service.
    #[error("the addressee does not fit the service")]
    Addressee,
}

#[derive(Debug)]
struct Entry {
    request: SendRequest,
    /// PSN of the first packet, once the request has started.
    first: Psn,
    /// Number of PSNs that the request uses: request packets, or response packets.
    packets: u32,
    /// Number of them that are acknowledged or received.
    done: u32,
    /// The status with which the request ends once all earlier ones are done: it cannot be
    /// executed.
    blocked: Option<Status>,
}

impl Entry {
    fn answer(&self) -> Answer {
        self.request.operation.answer()
    }

    /// Returns the PSN of the first packet that is not done.
    fn position(&self) -> Psn {
        self.first.plus(self.done)
    }

    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sending,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    entry: usize,
    packet: u32,
}

impl Cursor {
    const FIRST: Self = Self {
        entry: 0,
        packet: 0,
    };

    /// Returns the same packet's position after the first request has left the queue. A packet of
    /// that request was due for retransmission and has turned out to have arrived.
    fn without_the_first(self) -> Self {
        match self.entry.checked_sub(1) {
            Some(entry) => Self { entry, ..self },
            None => Self::FIRST,
        }
    }
}

/// The requester of a reliable queue pair.
#[derive(Debug)]
pub struct Requester {
    configuration: Configuration,
    queue: VecDeque<Entry>,
    started: usize,
    cursor: Cursor,
    next_psn: Psn,
    oldest: Psn,
    limit: Psn,
    since_ack_request: u32,
    outstanding: Outstanding,
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
    /// Returns a requester with an empty queue.
    pub fn new(configuration: Configuration) -> Self {
        let psn = configuration.initial_psn;
        Self {
            queue: VecDeque::new(),
            started: 0,
            cursor: Cursor::FIRST,
            next_psn: psn,
            oldest: psn,
            limit: psn,
            since_ack_request: 0,
            outstanding: Outstanding::new(configuration.max_rd_atomic),
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

    /// Posts a request. In the error state the next `poll_transmit` flushes it.
    ///
    /// # Errors
    ///
    /// The queue is full, or the length or addressee is invalid for this queue pair. Nothing is
    /// posted.
    pub fn post(&mut self, request: SendRequest) -> Result<(), PostError> {
        if self.queue.len() >= self.configuration.capacity {
            return Err(PostError::Full(self.queue.len()));
        }
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
            | (Reliable::Xrc, Addressee::SharedReceiveQueue(_)) => {}
            _ => return Err(PostError::Addressee),
        }
        let packets = request::packets(kind, length, self.configuration.mtu.bytes());
        let first = Psn::default();
        self.queue.push_back(Entry {
            request,
            first,
            packets,
            done: 0,
            blocked: None,
        });
        Ok(())
    }

    /// Changes timeout and retries, as a drained queue pair may (SQD to SQD), and reloads the
    /// counters.
    pub fn set_retries(&mut self, timeout: AckTimeout, count: RetryCount, rnr: RnrRetry) {
        self.configuration.ack_timeout = timeout;
        self.retries = Retries::new(count, rnr);
    }

    /// Changes `max_rd_atomic`, as a drained queue pair may.
    pub fn set_max_rd_atomic(&mut self, limit: u32) {
        self.outstanding.set_limit(limit);
    }

    /// Handles a congestion notification (CNP): reduces the congestion window.
    pub fn congested(&mut self) {
        self.congestion.notified(self.limit);
    }

    /// Returns the number of requests that are posted and not complete.
    pub fn posted(&self) -> usize {
        self.queue.len()
    }

    /// Returns the PSN of the next request to start.
    pub fn next_psn(&self) -> Psn {
        self.next_psn
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
    pub fn flush(&mut self, access: &mut impl RequesterAccess) {
        self.mode = Mode::Failed;
        self.stop_waiting();
        self.started = 0;
        self.cursor = Cursor::FIRST;
        self.oldest = self.limit;
        for entry in self.queue.drain(..) {
            access.complete(SendCompletion {
                id: entry.request.id,
                status: Status::Flushed,
            });
        }
    }

    /// Completes the first request with `status` and flushes the others.
    fn fail(&mut self, status: Status, access: &mut impl RequesterAccess) {
        if let Some(entry) = self.queue.pop_front() {
            access.complete(SendCompletion {
                id: entry.request.id,
                status,
            });
        }
        self.flush(access);
    }

    /// Completes the first request successfully.
    fn finish(&mut self, access: &mut impl RequesterAccess) {
        let Some(entry) = self.queue.pop_front() else {
            return;
        };
        self.outstanding.end(entry.answer());
        self.started -= 1;
        self.cursor = self.cursor.without_the_first();
        self.resume = self.resume.map(Resume::without_the_first);
        access.complete(SendCompletion {
            id: entry.request.id,
            status: Status::Success,
        });
    }

    fn segments(&self, entry: &Entry) -> Segments {
        Segments {
            mtu: self.configuration.mtu,
            length: entry.request.length,
        }
    }

    fn service(&self) -> Service {
        self.configuration.service.service()
    }
}
