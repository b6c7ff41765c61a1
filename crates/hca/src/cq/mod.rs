//! Completion queues: ibv_create_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_resize_cq(3).
//!
//! Producers and consumers of a queue each take their own lock (`ring`); checking an empty
//! queue takes none. A queue that the program declares to be polled by a single thread has no poll
//! lock.

mod by_rules;
mod init;
mod members;
mod ring;
mod taking;

pub use crate::causes::queues::are_ruled;
pub use init::{CqInit, OnOverrun, Polled, Timestamps};
pub(crate) use ring::Retired;
pub use taking::Taking;

use crate::causes::queues::QueueRules;
use crate::event::{AsyncEvent, CompletionChannel, EventQueue};
use crate::moderation::{Moderation, ModerationVerdict};
pub use members::Member;
use members::Members;
use ring::{CqEntry, Entries};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use verbena_abi::*;
use verbena_hca_memory::limits::MAX_CQE;
use verbena_hca_memory::quota;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Result;
use verbena_hca_os::lock::{Guard, Lock};
use verbena_hca_os::{refusal, refused};

/// The adapter that completion queues belong to. Calls through it are static.
pub trait Adapter: Send + Sync + Sized + 'static {
    /// A polling queue's cached view of the adapter.
    type View: Default + Send;
    /// Looks for a thread that polled an empty queue whether there is something to do.
    fn look(&self, view: &mut Self::View) -> Look;
    /// As [`Adapter::poll_progress`], after [`Look::Lanes`].
    fn poll_lanes(&self, view: &mut Self::View, taking: &mut Taking<'_, Self>);
    /// Makes progress for a thread that polled an empty queue, and takes its completions.
    fn poll_progress(&self, view: &mut Self::View, taking: &mut Taking<'_, Self>);
    /// As [`Adapter::poll_progress`], for a thread that has no view.
    fn poll_progress_without_view(&self);
    /// Counts a queue that wants an event: peers ring from now on.
    fn queue_armed(&self);
    /// Notes that an armed queue is armed once more: the arming thread may be about to sleep.
    fn queue_armed_again(&self);
    /// Notes that a queue had its event or is destroyed.
    fn queue_disarmed(&self);
    /// Assigns a queue the number by which it is woken.
    fn number_queue(&self, queue: &Arc<Cq<Self>>) -> u32;
    /// Removes a queue's number.
    fn forget_queue(&self, number: u32);
    /// Has `Cq::wake` called at `deadline`, by a thread that holds no lock.
    fn wake_queue_at(&self, deadline: u64, number: u32);
}

/// Work of an adapter for a poll of an empty queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Nothing,
    /// Messages or acknowledgements in the queue's lanes.
    Lanes,
    /// Perhaps anything.
    Work,
}

/// Work of a poll.
pub enum Found<'a, A: Adapter> {
    /// Nothing.
    Nothing,
    /// As [`Look::Lanes`], with the view in which they were found.
    Lanes(Guard<'a, A::View>),
    /// Perhaps anything.
    Work,
}

/// A completion.
#[derive(Clone, Copy)]
pub struct Completion<'a> {
    /// The work completion as the application sees it.
    pub wc: ibv_wc,
    /// Nanoseconds of the adapter's clock, if the queue records timestamps.
    pub timestamp: u64,
    /// Send queue whose entries up to a position become free when this completion is polled.
    retire: Option<(&'a Arc<Retired>, u64)>,
}

impl<'a> Completion<'a> {
    /// Creates the completion of a receive, which frees no send queue entries.
    #[inline]
    pub fn received(wc: ibv_wc) -> Completion<'static> {
        Completion {
            wc,
            timestamp: 0,
            retire: None,
        }
    }

    /// Creates the completion of a send: polling it frees the send queue's entries before
    /// `position`. The queue pair of the send queue must be attached to the completion queue.
    #[inline]
    pub(crate) fn sent(wc: ibv_wc, retired: &'a Arc<Retired>, position: u64) -> Completion<'a> {
        Completion {
            wc,
            timestamp: 0,
            retire: Some((retired, position)),
        }
    }
}

/// Result of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CqPush {
    /// The completion is in the queue.
    Stored,
    /// The queue has overrun, now or before, and accepts no more completions. The queue pairs that
    /// complete there are about to enter the error state.
    Overrun,
}

/// Which completions raise an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    No,
    Any,
    Solicited,
}

/// A completion queue.
#[repr(C, align(64))]
pub struct Cq<A: Adapter> {
    /// Position behind the last completion. Next to `head`, so that checking an empty queue reads
    /// one cache line.
    tail: AtomicU64,
    /// Position of the oldest completion.
    head: AtomicU64,
    polled: Polled,
    adapter: Arc<A>,
    poll: Lock<Arc<Entries>>,
    /// For a thread that finds the queue empty and lets the adapter make progress.
    view: Lock<A::View>,
    push: Lock<Filling>,
    channel: Option<Arc<CompletionChannel>>,
    cookie: AtomicUsize,
    events: Arc<EventQueue<AsyncEvent>>,
    members: Members,
    timestamps: bool,
    on_overrun: OnOverrun,
    /// Whether each completion must go through the ring: the queue is armed, has overrun or has
    /// rules. Written under the `push` lock.
    uses_ring_only: AtomicBool,
    /// The members have yet to be moved to the error state after an overrun.
    failing: AtomicBool,
    /// Number by which timers identify the queue; set on creation.
    number: OnceLock<u32>,
    /// Rules about the queue.
    rules: Option<Arc<QueueRules>>,
    /// The queue's share of the device's limit, until the queue is destroyed.
    quota_share: Mutex<Option<quota::QuotaShare>>,
}

/// State of the producer side.
struct Filling {
    entries: Arc<Entries>,
    capacity: u32,
    /// Number of completions that fit without a further check: the capacity, or 0 if a rule counts
    /// completions.
    unchecked: u32,
    /// `head` as the producers last saw it.
    head: u64,
    arm: Arm,
    moderation: Moderation,
    overrun: bool,
}

/// Access to the consumer side of the queue.
enum Emptying<'a> {
    Locked(Guard<'a, Arc<Entries>>),
    Alone(&'a mut Arc<Entries>),
}

impl Emptying<'_> {
    #[inline]
    fn entries(&self) -> &Entries {
        match self {
            Emptying::Locked(entries) => entries,
            Emptying::Alone(entries) => entries,
        }
    }

    fn replace(&mut self, next: Arc<Entries>) {
        match self {
            Emptying::Locked(entries) => **entries = next,
            Emptying::Alone(entries) => **entries = next,
        }
    }
}

impl<A: Adapter> Cq<A> {
    /// Creates a queue for at least `entries` completions that any thread may poll.
    ///
    /// # Errors
    /// As [`Cq::create_with`].
    pub fn create(
        adapter: &Arc<A>,
        events: &Arc<EventQueue<AsyncEvent>>,
        entries: u32,
        channel: Option<Arc<CompletionChannel>>,
        timestamps: Timestamps,
    ) -> Result<Arc<Cq<A>>> {
        let init = CqInit {
            entries,
            channel,
            timestamps,
            ..CqInit::default()
        };
        Cq::create_with(adapter, events, init)
    }

    /// Creates a queue with the given attributes.
    ///
    /// # Errors
    /// EINVAL for a size of zero or beyond the limit; ENOMEM beyond the device's number of queues.
    pub fn create_with(
        adapter: &Arc<A>,
        events: &Arc<EventQueue<AsyncEvent>>,
        init: CqInit,
    ) -> Result<Arc<Cq<A>>> {
        let capacity = init.entries;
        if capacity == 0 || capacity > MAX_CQE.as_u32() {
            return Err(refused!(
                EINVAL,
                "cqe is {capacity}: 1 to {MAX_CQE} (max_cqe of ibv_query_device) are allowed"
            ));
        }
        let quota_share = quota::COMPLETION_QUEUES.take()?;
        let timestamps = init.timestamps == Timestamps::On;
        let rules = QueueRules::of_next();
        let entries = Arc::new(Entries::new(capacity, timestamps));
        let cq = Arc::new(Cq {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            polled: init.polled,
            adapter: adapter.clone(),
            poll: Lock::new(entries.clone()),
            view: Lock::default(),
            push: Lock::new(Filling {
                entries,
                capacity,
                unchecked: unchecked(capacity, rules.as_ref()),
                head: 0,
                arm: Arm::No,
                moderation: Moderation::default(),
                overrun: false,
            }),
            channel: init.channel,
            cookie: AtomicUsize::new(0),
            events: events.clone(),
            members: Members::default(),
            timestamps,
            on_overrun: init.on_overrun,
            uses_ring_only: AtomicBool::new(rules.is_some()),
            failing: AtomicBool::new(false),
            number: OnceLock::new(),
            rules,
            quota_share: Mutex::new(Some(quota_share)),
        });
        cq.number.get_or_init(|| adapter.number_queue(&cq));
        Ok(cq)
    }

    /// Sets the cookie that events of this queue carry.
    pub fn set_cookie(&self, cookie: usize) {
        self.cookie.store(cookie, Ordering::Release);
    }

    /// Returns the number by which the adapter knows the queue, 0 while it has none.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.get().copied().unwrap_or(0)
    }

    /// Returns the capacity, in completions.
    pub fn capacity(&self) -> u32 {
        self.push.lock().capacity
    }

    /// Changes the capacity. Completions in the queue stay.
    ///
    /// # Errors
    /// EINVAL if the queue holds more completions than the new capacity, or the size is not
    /// allowed.
    pub fn resize(&self, capacity: u32) -> Result<()> {
        let mut emptying = self.emptying();
        let mut filling = self.push.lock();
        let (head, tail) = self.ends();
        if capacity == 0 || capacity > MAX_CQE.as_u32() || tail - head > u64::from(capacity) {
            return Err(refused!(
                EINVAL,
                "cqe is {capacity}: 1 to {MAX_CQE} (max_cqe of ibv_query_device) are allowed, \
                 and at least the number of queued completions, {}",
                tail - head
            ));
        }
        let next = Arc::new(Entries::new(capacity, self.timestamps));
        for position in head..tail {
            // SAFETY: both locks are held; the entries between `head` and `tail` were written and
            // fit into the new memory, which is not shared yet.
            unsafe { next.write(position, *filling.entries.read(position)) };
            next.set_time(position, filling.entries.time(position));
        }
        filling.capacity = capacity;
        filling.unchecked = unchecked(capacity, self.rules.as_ref());
        filling.entries = next.clone();
        emptying.replace(next);
        Ok(())
    }

    /// Gathers `count` completions before an event is raised, for at most `period`
    /// (ibv_modify_cq(3)).
    pub fn moderate(&self, count: u16, period: Duration) {
        self.push.lock().moderation = Moderation::new(count, period.as_nanos() as u64);
    }

    /// Handles the queue's timer: fails the members after an overrun, and raises an event that
    /// moderation has delayed.
    pub(crate) fn wake(&self) {
        if self.failing.swap(false, Ordering::AcqRel) {
            for queue_pair in self.members.queue_pairs() {
                queue_pair.fail();
            }
        }
        let mut filling = self.push.lock();
        // Still armed: the thread that raises the event disarms the queue.
        if filling.arm != Arm::No && filling.moderation.expire(clock::now()) {
            self.raise(filling);
        }
    }

    /// Takes up to `target.len()` completions and returns how many. If the queue is empty, lets the
    /// adapter make progress and checks once more.
    #[inline]
    pub fn poll(&self, target: &mut [ibv_wc]) -> usize {
        if !self.is_empty() {
            return self.poll_ring(target);
        }
        let Some(mut view) = self.view_at_once() else {
            return self.poll_without_view(target);
        };
        match self.adapter.look(&mut view) {
            Look::Nothing => 0,
            Look::Lanes => self.poll_lanes(view, target),
            Look::Work => self.poll_empty(view, target),
        }
    }

    /// Returns the work of a poll. Most have none, so this part is inlined into the
    /// program's call: as no further call follows, it has hardly any registers to save.
    #[inline(always)]
    pub fn look(&self) -> Found<'_, A> {
        if !self.is_empty() {
            return Found::Work;
        }
        let Some(mut view) = self.view_at_once() else {
            return Found::Work;
        };
        match self.adapter.look(&mut view) {
            Look::Nothing => Found::Nothing,
            Look::Lanes => Found::Lanes(view),
            Look::Work => Found::Work,
        }
    }

    /// As [`Cq::poll`], after [`Found::Work`].
    pub fn poll_work(&self, target: &mut [ibv_wc]) -> usize {
        if !self.is_empty() {
            return self.poll_ring(target);
        }
        match self.view_at_once() {
            Some(view) => self.poll_empty(view, target),
            None => self.poll_without_view(target),
        }
    }

    /// As [`Cq::poll`], after [`Found::Lanes`].
    #[inline(always)]
    pub fn poll_lanes(&self, mut view: Guard<'_, A::View>, target: &mut [ibv_wc]) -> usize {
        let mut taking = Taking::new(self, target);
        self.adapter.poll_lanes(&mut view, &mut taking);
        let taken = taking.count();
        drop(view);
        self.poll_rest(target, taken)
    }

    /// Returns the view, if that takes no locked instruction.
    #[inline(always)]
    fn view_at_once(&self) -> Option<Guard<'_, A::View>> {
        match self.polled {
            Polled::ByAny => self.view.try_lock_at_home(),
            // SAFETY: the program promises that no other thread polls at the same time, and nothing
            // takes the lock.
            Polled::ByOne => Some(unsafe { self.view.guard_of_one_thread() }),
        }
    }

    #[cold]
    #[inline(never)]
    fn poll_without_view(&self, target: &mut [ibv_wc]) -> usize {
        let taken = match self.view.try_lock() {
            Some(view) => return self.poll_empty(view, target),
            // Another thread holds the lock, perhaps for long.
            None => {
                self.adapter.poll_progress_without_view();
                0
            }
        };
        self.poll_rest(target, taken)
    }

    #[inline(never)]
    fn poll_empty(&self, mut view: Guard<'_, A::View>, target: &mut [ibv_wc]) -> usize {
        let mut taking = Taking::new(self, target);
        self.adapter.poll_progress(&mut view, &mut taking);
        let taken = taking.count();
        drop(view);
        self.poll_rest(target, taken)
    }

    /// Takes completions from the ring behind those that were taken without it.
    #[inline(always)]
    fn poll_rest(&self, target: &mut [ibv_wc], taken: usize) -> usize {
        if taken == target.len() || self.is_empty() {
            return taken;
        }
        taken + self.poll_ring(&mut target[taken..])
    }

    #[inline(never)]
    fn poll_ring(&self, target: &mut [ibv_wc]) -> usize {
        let emptying = self.emptying();
        let (head, tail) = self.ends();
        let count = ((tail - head) as usize).min(target.len());
        for (position, slot) in (head..tail).zip(target.iter_mut()) {
            // SAFETY: the position is between `head` and `tail`, and this thread is the consumer;
            // the members keep the counters alive longer than the entries.
            let entry = unsafe { emptying.entries().read(position) };
            *slot = entry.wc;
            // SAFETY: this thread is the consumer, and the members keep the counter alive longer
            // than the entry.
            unsafe { entry.retire() };
        }
        self.head.store(head + count as u64, Ordering::Release);
        count
    }

    /// Takes one completion with its timestamp, as [`Cq::poll`] does.
    #[inline]
    pub fn take(&self) -> Option<Completion<'static>> {
        if !self.has_some() {
            return None;
        }
        let emptying = self.emptying();
        let (head, tail) = self.ends();
        if head == tail {
            return None;
        }
        // SAFETY: `head` is before `tail`, and this thread is the consumer.
        let entry = unsafe { emptying.entries().read(head) };
        let completion = Completion {
            timestamp: emptying.entries().time(head),
            ..Completion::received(entry.wc)
        };
        // SAFETY: this thread is the consumer, and the members keep the counter alive longer than
        // the entry.
        unsafe { entry.retire() };
        self.head.store(head + 1, Ordering::Release);
        Some(completion)
    }

    /// Returns whether the queue holds a completion, letting the adapter make progress if it does
    /// not.
    #[inline]
    fn has_some(&self) -> bool {
        !self.is_empty() || self.finds_some()
    }

    #[inline(never)]
    fn finds_some(&self) -> bool {
        self.poll(&mut []);
        !self.is_empty()
    }

    /// Drops the cached channels after peers have died, so that a queue which is never polled does
    /// not keep their memory. A queue that is polled by a single thread drops them at its next
    /// poll.
    pub(crate) fn forget_channels(&self) {
        if self.polled == Polled::ByAny
            && let Some(mut view) = self.view.try_lock()
        {
            *view = A::View::default();
        }
    }

    /// Returns whether the queue holds no completion.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let (head, tail) = self.ends();
        head == tail
    }

    /// Returns the positions of the oldest completion and behind the last.
    #[inline]
    fn ends(&self) -> (u64, u64) {
        // SYNC POINT completion. `head` is loaded first: it never passes a `tail` that is loaded
        // later.
        let head = self.head.load(Ordering::Relaxed);
        (head, self.tail.load(Ordering::Acquire))
    }

    /// Becomes the consumer of the queue.
    #[inline]
    fn emptying(&self) -> Emptying<'_> {
        match self.polled {
            Polled::ByAny => Emptying::Locked(self.poll.lock()),
            // SAFETY: the program promises that no other thread polls, resizes or cleans the queue
            // at the same time.
            Polled::ByOne => Emptying::Alone(unsafe { self.poll.of_one_thread() }),
        }
    }

    /// Arms the queue for one event at the next completion; with `solicited_only`, at the next
    /// completion that is solicited or failed.
    pub fn arm(&self, solicited_only: bool) {
        let mut filling = self.push.lock();
        // A request for fewer completions does not withdraw an earlier one (ibv_req_notify_cq(3)).
        match filling.arm {
            Arm::No => self.adapter.queue_armed(),
            Arm::Solicited | Arm::Any => self.adapter.queue_armed_again(),
        }
        if filling.arm != Arm::Any {
            filling.arm = if solicited_only {
                Arm::Solicited
            } else {
                Arm::Any
            };
            self.uses_ring_only.store(true, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn push(&self, completion: Completion<'_>, solicited: bool) -> CqPush {
        let (retired, position) = match completion.retire {
            Some((retired, position)) => (Arc::as_ptr(retired), position),
            None => (std::ptr::null(), 0),
        };
        let mut filling = self.push.lock();
        let tail = self.tail.load(Ordering::Relaxed);
        if tail - filling.head >= u64::from(filling.unchecked) || filling.overrun {
            // SYNC POINT completion.
            filling.head = self.head.load(Ordering::Acquire);
            let is_full = tail - filling.head >= u64::from(filling.capacity);
            if is_full || filling.overrun || self.overruns_by_rule() {
                return self.overrun(filling);
            }
        }
        let entry = CqEntry {
            wc: completion.wc,
            retired,
            position,
        };
        // SAFETY: the position was just found to be free, and the `push` lock is held.
        unsafe { filling.entries.write(tail, entry) };
        if self.timestamps {
            filling.entries.set_time(tail, clock::now());
        }
        self.tail.store(tail + 1, Ordering::Release);
        if filling.arm != Arm::No {
            let failed = completion.wc.status != IBV_WC_SUCCESS;
            self.consider_event(filling, solicited, failed);
        }
        CqPush::Stored
    }

    /// Decides whether a completion raises an event on an armed queue.
    #[cold]
    fn consider_event(&self, mut filling: Guard<'_, Filling>, solicited: bool, failed: bool) {
        if filling.arm == Arm::Solicited && !solicited && !failed {
            return;
        }
        match filling.moderation.gather(clock::now) {
            ModerationVerdict::Raise => self.raise(filling),
            // A failure is not delayed by moderation.
            _ if failed => self.raise(filling),
            ModerationVerdict::WaitUntil(deadline) => self.wake_at(deadline),
            ModerationVerdict::Wait => (),
        }
    }

    fn raise(&self, mut filling: Guard<'_, Filling>) {
        filling.arm = Arm::No;
        let uses_ring_only = filling.overrun || self.rules.is_some();
        self.uses_ring_only.store(uses_ring_only, Ordering::Relaxed);
        self.adapter.queue_disarmed();
        drop(filling);
        if let Some(channel) = &self.channel {
            let cookie = self.cookie.load(Ordering::Acquire);
            match &self.rules {
                None => channel.push(cookie),
                Some(rules) => self.raise_by_rules(rules, channel, cookie),
            }
        }
    }

    /// Handles a completion that does not fit. The members enter the error state later, because
    /// the caller may hold the locks of one.
    #[cold]
    fn overrun(&self, mut filling: Guard<'_, Filling>) -> CqPush {
        if self.on_overrun == OnOverrun::Ignore {
            return CqPush::Stored;
        }
        let is_first = !std::mem::replace(&mut filling.overrun, true);
        self.uses_ring_only.store(true, Ordering::Relaxed);
        let capacity = filling.capacity;
        drop(filling);
        if is_first {
            refusal::report(format_args!(
                "completion queue: IBV_EVENT_CQ_ERR: overrun: {capacity} completions (cqe of \
                 ibv_create_cq) are unpolled, and the queue pairs that complete there fail: poll \
                 sooner, or make the queue larger"
            ));
            let element = self.cookie.load(Ordering::Acquire);
            self.events.push(AsyncEvent {
                kind: IBV_EVENT_CQ_ERR,
                element,
            });
        }
        if !self.failing.swap(true, Ordering::AcqRel) {
            self.wake_at(0);
        }
        CqPush::Overrun
    }

    /// Has [`Cq::wake`] called at `deadline`, by a thread that holds no lock.
    fn wake_at(&self, deadline: u64) {
        if let Some(number) = self.number.get() {
            self.adapter.wake_queue_at(deadline, *number);
        }
    }

    /// Drops the completions of a queue pair that is being destroyed or reset.
    pub(crate) fn clean(&self, queue_pair: u32) {
        let emptying = self.emptying();
        let _filling = self.push.lock();
        let (head, tail) = self.ends();
        let entries = emptying.entries();
        let mut kept = head;
        for position in head..tail {
            // SAFETY: both locks are held, and `kept` never passes `position`, so no entry is
            // overwritten before it is read.
            unsafe {
                let entry = *entries.read(position);
                if entry.wc.qp_num == queue_pair {
                    entry.retire();
                    continue;
                }
                entries.write(kept, entry);
            }
            entries.set_time(kept, entries.time(position));
            kept += 1;
        }
        self.tail.store(kept, Ordering::Release);
    }

    /// Counts a shared receive queue that completes here.
    pub(crate) fn retain(&self) {
        self.members.retain();
    }

    /// Undoes one [`Cq::retain`].
    pub(crate) fn release(&self) {
        self.members.release();
    }

    /// Attaches the queue pair of a number. It will complete here, and its send queue counts its
    /// free entries in `retired`. A queue pair that sends and receives through this queue is
    /// attached twice.
    pub(crate) fn attach(&self, number: u32, queue_pair: Weak<dyn Member>, retired: &Arc<Retired>) {
        self.members.attach(number, queue_pair, retired);
    }

    /// Undoes one [`Cq::attach`] and drops the queue pair's completions. The queue pair adds none
    /// afterwards.
    pub(crate) fn detach(&self, queue_pair: u32) {
        self.clean(queue_pair);
        self.members.detach(queue_pair);
    }

    /// Destroys the queue for the application.
    ///
    /// # Errors
    /// EBUSY while queue pairs or shared receive queues complete here.
    pub fn destroy(&self) -> Result<()> {
        if !self.members.is_empty() {
            return Err(refused!(
                EBUSY,
                "queue pairs or shared receive queues complete in the queue: destroy them first"
            ));
        }
        let armed = std::mem::replace(&mut self.push.lock().arm, Arm::No);
        if armed != Arm::No {
            self.adapter.queue_disarmed();
        }
        if let Some(number) = self.number.get() {
            self.adapter.forget_queue(*number);
        }
        match self.polled {
            Polled::ByAny => self.forget_channels(),
            // SAFETY: the program does not poll a queue that it destroys, and promises that only
            // one thread does at all.
            Polled::ByOne => unsafe { *self.view.of_one_thread() = A::View::default() },
        }
        let cookie = self.cookie.load(Ordering::Acquire);
        if let Some(rules) = &self.rules {
            rules.destroy();
        }
        if let Some(channel) = &self.channel {
            channel.forget(|of| *of == cookie);
        }
        self.events
            .forget(|event| event.kind == IBV_EVENT_CQ_ERR && event.element == cookie);
        *self.quota_share.lock().unwrap_or_else(|e| e.into_inner()) = None;
        Ok(())
    }
}

/// Returns the number of completions that fit into a queue without a further check.
fn unchecked(capacity: u32, rules: Option<&Arc<QueueRules>>) -> u32 {
    match rules {
        Some(rules) if rules.count_completions() => 0,
        _ => capacity,
    }
}

#[cfg(test)]
mod tests;
