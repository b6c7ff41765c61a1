//! The two ends of a channel: the private state of the requester and of the responder.

use crate::process::lane_ends::{LaneIn, LaneNumbers};
use crate::process::next_record::NextRecord;
use crate::process::qp_cache::{Numbered, QpCache};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::lock::{Guard, Lock};
use verbena_hca_os::slots::{Slot, Slots};
use verbena_hca_shm::channel::{Channel, MAX_PAYLOAD, Requests};
use verbena_hca_shm::flight::Flight;
use verbena_hca_shm::ring::{self, Consumer, Corrupt, Header, Producer, Space, Store};
use verbena_hca_shm::section::{OwnMarks, Section};

/// A request in flight: when the responder's position passes `end`, work request `index` of queue
/// pair `number` is acknowledged, provided that its count of go-backs is still `epoch`.
#[derive(Clone, Copy, Default)]
pub struct InFlight {
    end: u64,
    /// Number of the sending queue pair.
    pub number: u32,
    /// Incarnation of the queue pair that sent it.
    pub incarnation: u32,
    /// Index of its work request.
    pub index: u64,
    /// The queue pair's count of go-backs when the request was sent.
    pub epoch: u32,
}

impl Slot for InFlight {
    #[inline]
    fn release(&mut self) {}
}

/// The requester's end.
pub struct Outbound<Q> {
    /// The responder.
    pub peer: Arc<Peer>,
    /// Bits of [`Peer::pull_ability`] as the responder sees this process.
    pub can_pull: u32,
    /// The shared memory.
    pub channel: Channel,
    sending: Lock<Sending<Q>>,
    /// State for completing acknowledgements and answers; its lock admits one thread at a time, so
    /// order is kept.
    pub(crate) completing: Lock<Completing<Q>>,
    flight: Flight,
    /// Numbers of lanes in the channel.
    pub(crate) lanes: LaneNumbers,
    next_answer: NextRecord,
    /// Stamp of the answer that the progress thread saw at its last look.
    seen_answer: AtomicPtr<AtomicU32>,
    /// Acknowledged position of the flight when the progress thread saw that the responder was
    /// ahead of it.
    seen_news: AtomicU64,
    /// Section marks of local threads, used when the peer withholds all shared marks.
    private: OwnMarks,
}

/// Publishes a record before its payload is written.
#[cold]
fn push_early(
    space: Space<'_>,
    requests: &Requests<'_>,
    header: Header,
    length: usize,
    fill: impl FnOnce(*mut u8) -> Result<()>,
) -> Result<u64> {
    let mut target = std::ptr::null_mut();
    let end = space.publish(requests, header, length, |payload| {
        target = payload;
        Ok::<(), Errno>(())
    })?;
    std::thread::yield_now();
    fill(target).map(|()| end)
}

struct Sending<Q> {
    producer: Producer,
    in_flight: Slots<InFlight>,
    starving: Vec<Arc<Q>>,
    /// The responder is dead and the requests in flight have been taken: nothing would ever
    /// complete later ones.
    closed: bool,
}

impl<Q> Default for Sending<Q> {
    fn default() -> Sending<Q> {
        Sending {
            producer: Producer::default(),
            in_flight: Slots::default(),
            starving: Vec::new(),
            closed: false,
        }
    }
}

/// Result of publishing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelPush {
    /// The record is in the ring.
    Stored,
    /// The ring has no space now; the queue pair is woken when it has.
    Full,
    /// The responder is dead.
    Closed,
    /// The payload could not be read: the application has unmapped a buffer.
    Unreadable,
}

/// Value of [`Outbound`]'s `seen_news` when there were none; positions never reach it.
const NO_NEWS: u64 = u64::MAX;

/// State for completing.
pub struct Completing<Q> {
    /// Position in the answers.
    pub answers: Consumer,
    /// The queue pair whose request was acknowledged last.
    pub qp_cache: QpCache<Q>,
    /// Buffer for acknowledged requests, kept to avoid an allocation each time.
    pub done: Vec<InFlight>,
    /// Queue pairs that were waiting for space in the ring.
    pub starving: Vec<Arc<Q>>,
}

impl<Q> Default for Completing<Q> {
    fn default() -> Completing<Q> {
        Completing {
            answers: Consumer::default(),
            qp_cache: QpCache::default(),
            done: Vec::new(),
            starving: Vec::new(),
        }
    }
}

/// The work request that the responder acknowledges by consuming a record.
#[derive(Clone, Copy)]
pub struct Acknowledge {
    /// Work request of the queue pair.
    pub index: u64,
    /// The queue pair's present count of go-backs.
    pub epoch: u32,
}

impl<Q> Outbound<Q> {
    /// Returns whether an answer is published that was not processed yet, by one look. All answers
    /// before it were processed.
    #[inline]
    pub(crate) fn has_answer(&self) -> bool {
        self.next_answer.is_published()
    }
}

impl<Q: Numbered> Outbound<Q> {
    /// Returns the requester's end of a fresh channel.
    pub fn new(peer: Arc<Peer>, channel: Channel, can_pull: u32) -> Outbound<Q> {
        Outbound {
            peer,
            can_pull,
            next_answer: NextRecord::first(&channel.answers()),
            channel,
            sending: Lock::default(),
            completing: Lock::default(),
            flight: Flight::default(),
            lanes: LaneNumbers::default(),
            seen_answer: AtomicPtr::default(),
            seen_news: AtomicU64::new(NO_NEWS),
            private: OwnMarks::default(),
        }
    }

    /// Publishes a request record of `queue_pair`; `fill` writes its `length` bytes of payload. A
    /// record with `acknowledge` is the last of its request.
    ///
    /// The record is announced before it is published: the first condition of
    /// [`verbena_hca_shm::sleep`].
    #[inline]
    pub fn push(
        &self,
        queue_pair: &Arc<Q>,
        header: Header,
        length: usize,
        acknowledge: Option<Acknowledge>,
        fill: impl FnOnce(*mut u8) -> Result<()>,
    ) -> ChannelPush {
        debug_assert!(length <= MAX_PAYLOAD);
        let sending = &mut *self.sending();
        if sending.closed {
            return ChannelPush::Closed;
        }
        let requests = self.channel.requests();
        let Some(space) = sending.producer.space(&requests, header.kind, length) else {
            // Under the same lock under which the ring was found full: the thread that takes the
            // requests acknowledged since then finds the queue pair here.
            sending.starving.push(queue_pair.clone());
            return ChannelPush::Full;
        };
        self.flight.announce(space.end());
        let pushed = match planted::is(Bug::EarlyStamp) {
            false => space.publish(&requests, header, length, fill),
            true => push_early(space, &requests, header, length, fill),
        };
        let Ok(end) = pushed else {
            self.flight.announce(sending.producer.tail());
            return ChannelPush::Unreadable;
        };
        if let Some(Acknowledge { index, epoch }) = acknowledge {
            *sending.in_flight.append() = InFlight {
                end,
                number: queue_pair.number(),
                incarnation: queue_pair.incarnation(),
                index,
                epoch,
            };
        }
        ChannelPush::Stored
    }

    /// Publishes a record that needs no acknowledgement, if there is space. Returns whether there
    /// was.
    pub fn push_unawaited(
        &self,
        header: Header,
        length: usize,
        fill: impl FnOnce(*mut u8) -> Result<()>,
    ) -> bool {
        let sending = &mut *self.sending();
        let requests = self.channel.requests();
        if sending.closed {
            return false;
        }
        let Some(space) = sending.producer.space(&requests, header.kind, length) else {
            return false;
        };
        self.flight.announce(space.end());
        let is_published = space.publish(&requests, header, length, fill).is_ok();
        if !is_published {
            self.flight.announce(sending.producer.tail());
        }
        is_published
    }

    /// Opens a section for access to the responder's memory under `key`, and to local memory on
    /// behalf of this channel.
    #[inline(always)]
    pub fn section(&self, key: u32) -> Section<'_> {
        let shared = self.channel.requester_sections();
        shared
            .enter(key)
            .unwrap_or_else(|| cut_off(&self.peer, &self.private))
    }

    /// Waits for the sections of local threads.
    pub fn wait_for_sections(&self) {
        if !self.channel.requester_sections().wait_for_own() {
            self.peer.declare_dead();
        }
        self.private.wait();
    }

    /// Prefetches the cell of the next record into the cache.
    #[inline]
    pub fn prefetch(&self) {
        ring::prefetch(&self.channel.requests(), self.flight.announced());
    }

    /// Returns whether no request is in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.flight.is_idle()
    }

    /// Notes the position in the answers that completing has reached.
    pub(crate) fn note_position(&self, completing: &Completing<Q>) {
        self.next_answer
            .note(&completing.answers, &self.channel.answers());
    }

    /// Returns whether an answer or an acknowledgement is present that was already present at the
    /// last call. For the progress thread.
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

    /// Returns whether there is something to complete.
    #[inline]
    pub fn has_news(&self, head: u64) -> bool {
        self.flight.has_news(head)
    }

    /// Notes that everything the responder has consumed up to `head` is complete. The caller holds
    /// the `completing` lock.
    #[inline]
    pub(crate) fn note_complete(&self, head: u64) {
        self.flight.note_acknowledged(head);
    }

    /// Takes the requests that the responder has consumed up to `head`, in order, and the queue
    /// pairs that wait for space.
    ///
    /// # Errors
    /// [`Corrupt`] when `head` is past the last record pushed: the responder's position is invalid.
    #[inline]
    pub(crate) fn take_acknowledged(
        &self,
        head: u64,
        completing: &mut Completing<Q>,
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

    /// Takes everything in flight, because the responder will never consume it, and closes the
    /// channel to new records.
    pub fn take_all(&self) -> (Vec<InFlight>, Vec<Arc<Q>>) {
        let mut sending = self.sending();
        sending.closed = true;
        let starving = std::mem::take(&mut sending.starving);
        let all = sending.in_flight.take_all();
        self.flight.close();
        (all, starving)
    }

    #[inline]
    fn sending(&self) -> Guard<'_, Sending<Q>> {
        self.sending.lock()
    }
}

/// The responder's end.
pub struct Inbound<Q> {
    /// The requester.
    pub peer: Arc<Peer>,
    /// The shared memory.
    pub channel: Channel,
    /// State for serving requests; its lock admits one thread at a time, so order is kept.
    pub(crate) serving: Lock<Serving<Q>>,
    next: NextRecord,
    /// Stamp of the request that the progress thread saw at its last look.
    seen: AtomicPtr<AtomicU32>,
    /// The channel in the other direction, once there is one.
    pub(crate) reverse: OnceLock<Arc<Outbound<Q>>>,
    /// Section marks of local threads, used when the peer withholds all shared marks.
    private: OwnMarks,
}

/// State for serving.
pub struct Serving<Q> {
    /// Position in the requests.
    pub requests: Consumer,
    /// Position in the answers.
    pub answers: Producer,
    /// Bytes already answered of the read request at the head.
    pub read_progress: u64,
    /// The queue pair that was served last.
    pub qp_cache: QpCache<Q>,
    /// Lanes of the channel, by the number of the queue pair that sends.
    pub lanes: HashMap<u32, Arc<LaneIn<Q>>>,
}

impl<Q> Default for Serving<Q> {
    fn default() -> Serving<Q> {
        Serving {
            requests: Consumer::default(),
            answers: Producer::default(),
            read_progress: 0,
            qp_cache: QpCache::default(),
            lanes: HashMap::new(),
        }
    }
}

impl<Q> Inbound<Q> {
    /// Returns the responder's end of a channel that a requester handed over.
    pub fn new(peer: Arc<Peer>, channel: Channel) -> Inbound<Q> {
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

    /// Returns whether a request is published, by one look and without taking the `serving` lock.
    /// If another thread is serving, the result may be stale, but that thread looks again before it
    /// stops.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.next.is_published()
    }

    /// Returns whether a request is published that was already published at the last call. For the
    /// progress thread.
    pub fn has_left_request(&self) -> bool {
        self.next.was_published(&self.seen)
    }

    /// Notes the position in the requests that serving has reached.
    #[inline]
    pub fn note_position(&self, serving: &Serving<Q>) {
        self.next.note(&serving.requests, &self.channel.requests());
    }

    /// Opens a section for access to the requester's memory, and to local memory on behalf of this
    /// channel.
    #[inline(always)]
    pub fn section(&self, key: u32) -> Section<'_> {
        let shared = self.channel.responder_sections();
        shared
            .enter(key)
            .unwrap_or_else(|| cut_off(&self.peer, &self.private))
    }

    /// Waits for the sections of local threads.
    pub fn wait_for_sections(&self) {
        if !self.channel.responder_sections().wait_for_own() {
            self.peer.declare_dead();
        }
        self.private.wait();
    }
}

/// Treats a peer that holds all shared marks as dead; the access to local memory that follows is
/// marked where only this process sees it.
#[cold]
fn cut_off<'a>(peer: &Peer, private: &'a OwnMarks) -> Section<'a> {
    peer.declare_dead();
    private.enter(0)
}
