//! The two ends of a channel: what the requester and the responder keep to themselves about it.

use crate::errno::{Errno, Result};
use crate::lock::{Guard, Lock};
use crate::path::Peer;
use crate::planted::{self, Fault};
use crate::process::flight::Flight;
use crate::process::next_record::NextRecord;
use crate::qp::Qp;
use crate::qp::responder::Known;
use crate::shm::channel::{Channel, MAX_PAYLOAD, Requests};
use crate::shm::ring::{self, Consumer, Corrupt, Header, Producer, Store};
use crate::shm::section::{OwnMarks, Section};
use crate::slots::{Slot, Slots};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A request on its way: when the responder's position passes `end`, work request `index` of `queue_pair` is
/// acknowledged, unless the queue pair has gone back since (`epoch`).
#[derive(Clone, Copy, Default)]
pub struct InFlight {
    end: u64,
    /// Number of the queue pair whose it is.
    pub number: u32,
    /// Which life of that queue pair sent it.
    pub incarnation: u32,
    /// Which of its work requests.
    pub index: u64,
    /// Its count of go-backs when the request was sent.
    pub epoch: u32,
}

impl Slot for InFlight {
    #[inline]
    fn release(&mut self) {}
}

/// The requester's end.
pub struct Outbound {
    /// Who responds.
    pub peer: Arc<Peer>,
    /// Bits of [`Peer::pull_ability`] as the responder sees us.
    pub can_pull: u32,
    /// The shared memory.
    pub channel: Channel,
    sending: Lock<Sending>,
    /// Who completes what comes back; only one thread does at a time, so order is kept.
    pub(crate) completing: Lock<Completing>,
    flight: Flight,
    next_answer: NextRecord,
    /// The stamp of the answer that was there when the progress thread looked.
    seen_answer: AtomicPtr<AtomicU32>,
    /// How far the flight was acknowledged when the progress thread saw that the responder is farther.
    seen_news: AtomicU64,
    /// Where our threads mark what they touch when the peer keeps all shared marks.
    private: OwnMarks,
}

/// Publishes a record before its payload is written.
#[cold]
fn push_early(
    producer: &mut Producer,
    requests: &Requests<'_>,
    header: Header,
    length: usize,
    fill: impl FnOnce(*mut u8) -> Result<()>,
) -> Result<Option<u64>> {
    let mut target = std::ptr::null_mut();
    let end = producer.try_push(requests, header, length, |payload| {
        target = payload;
        Ok::<(), Errno>(())
    })?;
    std::thread::yield_now();
    fill(target).map(|()| end)
}

#[derive(Default)]
struct Sending {
    producer: Producer,
    in_flight: Slots<InFlight>,
    starving: Vec<Arc<Qp>>,
    /// The responder is dead and what was in flight has been taken: nothing would ever complete what came later.
    closed: bool,
}

/// What became of a record that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring.
    Stored,
    /// There is no room now; the queue pair is woken when there is.
    Full,
    /// The responder is dead.
    Closed,
    /// The payload could not be read: the application has unmapped a buffer.
    Unreadable,
}

/// What [`Outbound`]'s `seen_news` is when there were none; positions do not get so far.
const NO_NEWS: u64 = u64::MAX;

/// What completing needs.
#[derive(Default)]
pub(crate) struct Completing {
    /// Position in the answers.
    pub answers: Consumer,
    /// The queue pair whose request was acknowledged last.
    pub known: Known,
    /// Room to gather what is acknowledged, kept so that nothing is allocated each time.
    pub done: Vec<InFlight>,
    /// Who has room again.
    pub starving: Vec<Arc<Qp>>,
}

/// What the responder's dealing with a record acknowledges.
#[derive(Clone, Copy)]
pub struct Acknowledge {
    /// Work request of the queue pair.
    pub index: u64,
    /// Its count of go-backs now.
    pub epoch: u32,
}

impl Outbound {
    /// The end of a fresh channel.
    pub fn new(peer: Arc<Peer>, channel: Channel, can_pull: u32) -> Outbound {
        Outbound {
            peer,
            can_pull,
            next_answer: NextRecord::first(&channel.answers()),
            channel,
            sending: Lock::default(),
            completing: Lock::default(),
            flight: Flight::default(),
            seen_answer: AtomicPtr::default(),
            seen_news: AtomicU64::new(NO_NEWS),
            private: OwnMarks::default(),
        }
    }

    /// Publishes a request record of `queue_pair`; `fill` writes its `length` bytes of payload. With `acknowledge` it is
    /// the last of its request.
    ///
    /// The record is announced before it is published: the first condition of [`crate::shm::sleep`].
    #[inline]
    pub fn push(
        &self,
        queue_pair: &Arc<Qp>,
        header: Header,
        length: usize,
        acknowledge: Option<Acknowledge>,
        fill: impl FnOnce(*mut u8) -> Result<()>,
    ) -> Pushed {
        debug_assert!(length <= MAX_PAYLOAD);
        let mut sending = self.sending();
        if sending.closed {
            return Pushed::Closed;
        }
        let requests = self.channel.requests();
        if !sending.producer.has_room(&requests, length) {
            // Under the lock that the ring was found full under: whoever takes what the responder has dealt with since
            // finds the queue pair here.
            sending.starving.push(queue_pair.clone());
            return Pushed::Full;
        }
        let end = sending.producer.end_of(&requests, length);
        self.flight.announce(end);
        let producer = &mut sending.producer;
        let pushed = match planted::is(Fault::EarlyStamp) {
            false => producer.try_push(&requests, header, length, fill),
            true => push_early(producer, &requests, header, length, fill),
        };
        if pushed.is_err() {
            self.flight.announce(sending.producer.tail());
            return Pushed::Unreadable;
        }
        if let Some(Acknowledge { index, epoch }) = acknowledge {
            *sending.in_flight.append() = InFlight {
                end,
                number: queue_pair.number(),
                incarnation: queue_pair.incarnation(),
                index,
                epoch,
            };
        }
        Pushed::Stored
    }

    /// Publishes a record that nobody waits for, if there is room.
    pub fn push_unawaited(
        &self,
        header: Header,
        length: usize,
        fill: impl FnOnce(*mut u8) -> Result<()>,
    ) {
        let mut sending = self.sending();
        let requests = self.channel.requests();
        if sending.closed || !sending.producer.has_room(&requests, length) {
            return;
        }
        let end = sending.producer.end_of(&requests, length);
        self.flight.announce(end);
        let pushed = sending.producer.try_push(&requests, header, length, fill);
        if pushed.is_err() {
            self.flight.announce(sending.producer.tail());
        }
    }

    /// Opens a section to touch memory of the responder under `key`, and our own memory for this channel.
    #[inline]
    pub fn section(&self, key: u32) -> Section<'_> {
        let shared = self.channel.requester_sections();
        shared
            .enter(key)
            .unwrap_or_else(|| cut_off(&self.peer, &self.private))
    }

    /// Waits for the sections of our own threads.
    pub fn wait_for_sections(&self) {
        if !self.channel.requester_sections().wait_for_own() {
            self.peer.declare_dead();
        }
        self.private.wait();
    }

    /// Has the cell that the next record goes to brought into the cache.
    #[inline]
    pub fn prefetch(&self) {
        ring::prefetch(&self.channel.requests(), self.flight.announced());
    }

    /// Whether the responder has got on, or has still to.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.flight.is_idle()
    }

    /// Who completes has got so far in the answers.
    pub(crate) fn note_position(&self, completing: &Completing) {
        self.next_answer
            .note(&completing.answers, &self.channel.answers());
    }

    /// Whether an answer or an acknowledgement is there that was when this was last asked. For the progress thread.
    pub fn has_left_answer(&self) -> bool {
        let acknowledged = self.flight.acknowledged();
        let head = Store::head(&self.channel.requests()).load(Ordering::Acquire);
        let news = match self.is_idle() || !self.has_news(head) {
            true => NO_NEWS,
            false => acknowledged,
        };
        let is_left = self.seen_news.swap(news, Ordering::Relaxed) == news && news != NO_NEWS;
        is_left | self.next_answer.was_published(&self.seen_answer)
    }

    /// Whether there is something to complete.
    #[inline]
    pub fn has_news(&self, head: u64) -> bool {
        self.flight.has_news(head)
    }

    /// All that the responder has dealt with up to `head` is complete. Under the lock of those who
    /// complete.
    #[inline]
    pub(crate) fn note_complete(&self, head: u64) {
        self.flight.note_acknowledged(head);
    }

    /// Takes what the responder has dealt with up to `head`, in order, and those who wait for room.
    ///
    /// # Errors
    /// When nothing was ever pushed there: then the responder's word is nonsense.
    #[inline]
    pub(crate) fn take_acknowledged(
        &self,
        head: u64,
        completing: &mut Completing,
    ) -> std::result::Result<(), Corrupt> {
        let mut sending = self.sending();
        if head > sending.producer.tail() {
            return Err(Corrupt);
        }
        while let Some(first) = sending.in_flight.front()
            && first.end <= head
        {
            completing.done.push(*first);
            sending.in_flight.remove_front();
        }
        if !sending.starving.is_empty() {
            completing.starving.append(&mut sending.starving);
        }
        Ok(())
    }

    /// Takes everything in flight, because the responder will never deal with it, and lets nothing in any more.
    pub fn take_all(&self) -> (Vec<InFlight>, Vec<Arc<Qp>>) {
        let mut sending = self.sending();
        sending.closed = true;
        let starving = std::mem::take(&mut sending.starving);
        let all = sending.in_flight.take_all();
        self.flight.close();
        (all, starving)
    }

    #[inline]
    fn sending(&self) -> Guard<'_, Sending> {
        self.sending.lock()
    }
}

/// The responder's end.
pub struct Inbound {
    /// Who requests.
    pub peer: Arc<Peer>,
    /// The shared memory.
    pub channel: Channel,
    /// Who serves requests; only one thread does at a time, so order is kept.
    pub(crate) serving: Lock<Serving>,
    next: NextRecord,
    /// The stamp of the request that was there when the progress thread looked.
    seen: AtomicPtr<AtomicU32>,
    /// The channel in the other direction, once there is one.
    pub(crate) reverse: OnceLock<Arc<Outbound>>,
    /// Where our threads mark what they touch when the peer keeps all shared marks.
    private: OwnMarks,
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
            next: NextRecord::first(&channel.requests()),
            channel,
            serving: Lock::default(),
            seen: AtomicPtr::default(),
            reverse: OnceLock::new(),
            private: OwnMarks::default(),
        }
    }

    /// Whether a request is published, by one look and without becoming who serves. Another thread may be serving: then
    /// the answer is of a moment ago, and that thread looks again before it stops.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.next.is_published()
    }

    /// Whether a request is published that was so when this was last asked. For the progress thread.
    pub fn has_left_request(&self) -> bool {
        self.next.was_published(&self.seen)
    }

    /// Who serves has got so far.
    #[inline]
    pub fn note_position(&self, serving: &Serving) {
        self.next.note(&serving.requests, &self.channel.requests());
    }

    /// Opens a section to touch memory of the requester, and our own memory for this channel.
    #[inline]
    pub fn section(&self, key: u32) -> Section<'_> {
        let shared = self.channel.responder_sections();
        shared
            .enter(key)
            .unwrap_or_else(|| cut_off(&self.peer, &self.private))
    }

    /// Waits for the sections of our own threads.
    pub fn wait_for_sections(&self) {
        if !self.channel.responder_sections().wait_for_own() {
            self.peer.declare_dead();
        }
        self.private.wait();
    }
}

/// A peer that keeps all marks for itself is treated as dead; what we are about to touch of our own memory is marked where
/// only we see it.
#[cold]
fn cut_off<'a>(peer: &Peer, private: &'a OwnMarks) -> Section<'a> {
    peer.declare_dead();
    private.enter(0)
}
