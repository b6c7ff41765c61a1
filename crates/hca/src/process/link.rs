//! The two ends of a channel: what the requester and the responder keep to themselves about it.

use crate::path::Peer;
use crate::qp::Qp;
use crate::qp::responder::Known;
use crate::shm::channel::{Channel, MAX_PAYLOAD};
use crate::shm::ring::{self, Consumer, Header, Producer};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A request on its way: when the responder's position passes `end`, work request `index` of `queue_pair` is
/// acknowledged, unless the queue pair has gone back since (`epoch`).
pub struct InFlight {
    end: u64,
    /// Whose it is.
    pub queue_pair: Arc<Qp>,
    /// Which of its work requests.
    pub index: u64,
    /// Its count of go-backs when the request was sent.
    pub epoch: u32,
}

/// The requester's end.
pub struct Outbound {
    /// Who responds.
    pub peer: Arc<Peer>,
    /// Bits of [`Peer::pull_ability`] as the responder sees us.
    pub can_pull: u32,
    /// The shared memory.
    pub channel: Channel,
    sending: Mutex<Sending>,
    /// Who completes what comes back; only one thread does at a time, so order is kept.
    pub(crate) completing: Mutex<Completing>,
    pushed: AtomicU64,
    acknowledged: AtomicU64,
}

#[derive(Default)]
struct Sending {
    producer: Producer,
    in_flight: VecDeque<InFlight>,
    starving: Vec<Arc<Qp>>,
    /// The responder is dead and what was in flight has been taken: nothing would ever complete what came later.
    closed: bool,
}

/// What became of a record that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring.
    Stored,
    /// There is no room now.
    Full,
    /// The responder is dead.
    Closed,
}

/// What completing needs.
#[derive(Default)]
pub(crate) struct Completing {
    /// Position in the answers.
    pub answers: Consumer,
    /// Room to gather what is acknowledged, kept so that nothing is allocated each time.
    pub done: Vec<InFlight>,
}

/// Whether the responder's dealing with a record acknowledges a work request.
pub enum Acknowledge<'a> {
    /// It does: the last record of a message.
    Request(&'a Arc<Qp>, u64, u32),
    /// It does not: an earlier record, or one that is answered otherwise.
    Nothing,
}

impl Outbound {
    /// The end of a fresh channel.
    pub fn new(peer: Arc<Peer>, channel: Channel, can_pull: u32) -> Outbound {
        Outbound {
            peer,
            can_pull,
            channel,
            sending: Mutex::default(),
            completing: Mutex::default(),
            pushed: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        }
    }

    /// Publishes a request record; `fill` writes its `length` bytes of payload.
    #[inline]
    pub fn push(
        &self,
        header: Header,
        length: usize,
        acknowledge: Acknowledge<'_>,
        fill: impl FnOnce(*mut u8),
    ) -> Pushed {
        debug_assert!(length <= MAX_PAYLOAD);
        let mut sending = self.sending();
        if sending.closed {
            return Pushed::Closed;
        }
        let requests = self.channel.requests();
        let Some(end) = sending.producer.push(&requests, header, length, fill) else {
            return Pushed::Full;
        };
        if let Acknowledge::Request(queue_pair, index, epoch) = acknowledge {
            let queue_pair = queue_pair.clone();
            sending.in_flight.push_back(InFlight {
                end,
                queue_pair,
                index,
                epoch,
            });
        }
        self.pushed.store(end, Ordering::Release);
        Pushed::Stored
    }

    /// Has the cell that the next record goes to brought into the cache.
    #[inline]
    pub fn foresee(&self) {
        ring::foresee(
            &self.channel.requests(),
            self.pushed.load(Ordering::Relaxed),
        );
    }

    /// Has `queue_pair` pumped when the responder has made room. False when it never will.
    pub fn starve(&self, queue_pair: &Arc<Qp>) -> bool {
        let mut sending = self.sending();
        if !sending.closed {
            sending.starving.push(queue_pair.clone());
        }
        !sending.closed
    }

    /// Whether the responder has got on, or has still to.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) == self.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether there is something to complete.
    #[inline]
    pub fn has_news(&self, head: u64) -> bool {
        head != self.acknowledged.load(Ordering::Relaxed)
    }

    /// Takes what the responder has dealt with up to `head`, in order, and those who wait for room. None when nothing
    /// was ever pushed there: then the responder's word is nonsense.
    pub fn take_acknowledged(&self, head: u64, done: &mut Vec<InFlight>) -> Option<Vec<Arc<Qp>>> {
        let mut sending = self.sending();
        if head > sending.producer.tail() {
            return None;
        }
        while sending
            .in_flight
            .front()
            .is_some_and(|first| first.end <= head)
        {
            done.extend(sending.in_flight.pop_front());
        }
        self.acknowledged.store(head, Ordering::Relaxed);
        Some(std::mem::take(&mut sending.starving))
    }

    /// Takes everything in flight, because the responder will never deal with it, and lets nothing in any more.
    pub fn take_all(&self) -> (Vec<InFlight>, Vec<Arc<Qp>>) {
        let mut sending = self.sending();
        sending.closed = true;
        let starving = std::mem::take(&mut sending.starving);
        let all = sending.in_flight.drain(..).collect();
        self.acknowledged
            .store(self.pushed.load(Ordering::Relaxed), Ordering::Relaxed);
        (all, starving)
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The responder's end.
pub struct Inbound {
    /// Who requests.
    pub peer: Arc<Peer>,
    /// The shared memory.
    pub channel: Channel,
    /// Who serves requests; only one thread does at a time, so order is kept.
    pub(crate) serving: Mutex<Serving>,
    /// The channel in the other direction, once there is one.
    pub(crate) reverse: OnceLock<Arc<Outbound>>,
}

/// What serving needs.
#[derive(Default)]
pub struct Serving {
    /// Position in the requests.
    pub requests: Consumer,
    /// Position in the answers.
    pub answers: Producer,
    /// Bytes of a read request at the head that have been answered already.
    pub read_progress: u64,
    /// The queue pair that was served last.
    pub known: Known,
}

impl Inbound {
    /// The end of a channel that a requester handed over.
    pub fn new(peer: Arc<Peer>, channel: Channel) -> Inbound {
        Inbound {
            peer,
            channel,
            serving: Mutex::default(),
            reverse: OnceLock::new(),
        }
    }
}
