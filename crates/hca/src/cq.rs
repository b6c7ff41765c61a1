//! Completion queues: ibv_create_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_resize_cq(3).

use crate::context::Context;
use crate::errno::{Errno, Result};
use crate::event::{AsyncEvent, CompletionChannel};
use crate::moderation::{Moderation, Verdict};
use crate::sys::clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use verbena_abi::*;

/// Largest completion queue.
pub const MAX_ENTRIES: u32 = 1 << 22;

/// A completion as it waits in its queue.
#[derive(Clone, Debug)]
pub struct Completion {
    /// What the application sees.
    pub wc: ibv_wc,
    /// Nanoseconds of the adapter's clock, if the queue records them.
    pub timestamp: u64,
    /// Send queue whose entries up to a position are free again once this is polled.
    pub(crate) retire: Option<(Arc<AtomicU64>, u64)>,
}

impl Completion {
    /// Of a receive: it makes no room in a send queue.
    pub fn received(wc: ibv_wc) -> Completion {
        Completion {
            wc,
            timestamp: 0,
            retire: None,
        }
    }
}

/// When a queue raises an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    No,
    Any,
    Solicited,
}

/// A completion queue.
pub struct Cq {
    context: Arc<Context>,
    channel: Option<Arc<CompletionChannel>>,
    /// Completions waiting, so that polling an empty queue takes no lock.
    waiting: AtomicUsize,
    cookie: AtomicUsize,
    users: AtomicUsize,
    timestamps: bool,
    /// By which timers name the queue, once it moderates its events.
    number: OnceLock<u32>,
    ring: Mutex<Ring>,
}

struct Ring {
    entries: VecDeque<Completion>,
    capacity: usize,
    arm: Arm,
    moderation: Moderation,
    overflowed: bool,
}

/// Whether completions carry the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// They do not, which saves a clock read each.
    Off,
    /// They do.
    On,
}

impl Cq {
    /// A queue for at least `entries` completions.
    ///
    /// # Errors
    /// EINVAL for a size of zero or beyond the limit.
    pub fn create(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<Arc<CompletionChannel>>,
        timestamps: Timestamps,
    ) -> Result<Arc<Cq>> {
        if entries == 0 || entries > MAX_ENTRIES {
            return Err(Errno::EINVAL);
        }
        let ring = Ring {
            entries: VecDeque::with_capacity((entries as usize).min(4096)),
            capacity: entries as usize,
            arm: Arm::No,
            moderation: Moderation::default(),
            overflowed: false,
        };
        Ok(Arc::new(Cq {
            context: context.clone(),
            channel,
            waiting: AtomicUsize::new(0),
            cookie: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            timestamps: timestamps == Timestamps::On,
            number: OnceLock::new(),
            ring: Mutex::new(ring),
        }))
    }

    /// What events of this queue carry.
    pub fn set_cookie(&self, cookie: usize) {
        self.cookie.store(cookie, Ordering::Release);
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u32 {
        self.lock().capacity as u32
    }

    /// Changes the size. What is in the queue stays.
    ///
    /// # Errors
    /// EINVAL when the queue holds more, or the size is not allowed.
    pub fn resize(&self, entries: u32) -> Result<()> {
        let mut ring = self.lock();
        if entries == 0 || entries > MAX_ENTRIES || ring.entries.len() > entries as usize {
            return Err(Errno::EINVAL);
        }
        ring.capacity = entries as usize;
        Ok(())
    }

    /// Gathers `count` completions before an event is raised, for at most `period` (ibv_modify_cq(3)).
    pub fn moderate(self: &Arc<Cq>, count: u16, period: Duration) {
        let process = &self.context.process;
        self.number.get_or_init(|| process.moderated.add(self));
        self.lock().moderation = Moderation::new(count, period.as_nanos() as u64);
    }

    /// The time that the queue wanted to be told of has come.
    pub(crate) fn wake(&self) {
        let mut ring = self.lock();
        // Armed still: whoever raises the event disarms.
        if ring.arm != Arm::No && ring.moderation.expire(clock::now()) {
            self.raise(ring);
        }
    }

    /// Takes up to `target.len()` completions; returns how many. When there is none, lets the adapter make progress and
    /// looks once more.
    #[inline]
    pub fn poll(&self, target: &mut [ibv_wc]) -> usize {
        if self.waiting.load(Ordering::Acquire) == 0 {
            self.context.process.poll_progress();
            if self.waiting.load(Ordering::Acquire) == 0 {
                return 0;
            }
        }
        let mut ring = self.lock();
        let count = ring.entries.len().min(target.len());
        for slot in target.iter_mut().take(count) {
            let Some(completion) = ring.entries.pop_front() else {
                break;
            };
            completion.retire();
            *slot = completion.wc;
        }
        self.waiting.store(ring.entries.len(), Ordering::Release);
        count
    }

    /// Takes one completion with everything that belongs to it, as [`Cq::poll`] does.
    #[inline]
    pub fn take(&self) -> Option<Completion> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            self.context.process.poll_progress();
            if self.waiting.load(Ordering::Acquire) == 0 {
                return None;
            }
        }
        let mut ring = self.lock();
        let completion = ring.entries.pop_front()?;
        self.waiting.store(ring.entries.len(), Ordering::Release);
        completion.retire();
        Some(completion)
    }

    /// Raises one event at the next completion; with `solicited_only`, at the next that was solicited or failed.
    pub fn arm(&self, solicited_only: bool) {
        let mut ring = self.lock();
        // Asking for less does not withdraw what was asked for before (ibv_req_notify_cq(3)).
        if ring.arm == Arm::No {
            self.context.process.queue_armed();
        }
        if ring.arm != Arm::Any {
            ring.arm = if solicited_only {
                Arm::Solicited
            } else {
                Arm::Any
            };
        }
    }

    /// Adds a completion.
    pub(crate) fn push(&self, mut completion: Completion, solicited: bool) {
        if self.timestamps {
            completion.timestamp = clock::now();
        }
        let failed = completion.wc.status != IBV_WC_SUCCESS;
        let mut ring = self.lock();
        if ring.entries.len() >= ring.capacity {
            if !std::mem::replace(&mut ring.overflowed, true) {
                drop(ring);
                self.raise_error();
            }
            return;
        }
        ring.entries.push_back(completion);
        self.waiting.store(ring.entries.len(), Ordering::Release);
        let due = match ring.arm {
            Arm::No => false,
            Arm::Any => true,
            Arm::Solicited => solicited || failed,
        };
        if !due {
            return;
        }
        match ring.moderation.gather(clock::now) {
            Verdict::Raise => self.raise(ring),
            // A failure is not kept waiting.
            _ if failed => self.raise(ring),
            Verdict::WaitUntil(deadline) => {
                let process = &self.context.process;
                if let Some(number) = self.number.get()
                    && process.timers.set(deadline, *number)
                {
                    process.doorbell.ring();
                }
            }
            Verdict::Wait => (),
        }
    }

    /// Raises the event that the queue was armed for.
    fn raise(&self, mut ring: MutexGuard<'_, Ring>) {
        ring.arm = Arm::No;
        self.context.process.queue_disarmed();
        drop(ring);
        if let Some(channel) = &self.channel {
            channel.push(self.cookie.load(Ordering::Acquire));
        }
    }

    /// Drops the completions of a queue pair that goes away, so that none names it afterwards.
    pub(crate) fn clean(&self, queue_pair: u32) {
        let mut ring = self.lock();
        ring.entries.retain(|completion| {
            let keep = completion.wc.qp_num != queue_pair;
            if !keep {
                completion.retire();
            }
            keep
        });
        self.waiting.store(ring.entries.len(), Ordering::Release);
    }

    /// Counts a queue pair or shared receive queue that completes here.
    pub(crate) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one of these back.
    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the queue's life for the application.
    ///
    /// # Errors
    /// EBUSY while queue pairs complete here.
    pub fn destroy(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) > 0 {
            return Err(Errno::EBUSY);
        }
        if std::mem::replace(&mut self.lock().arm, Arm::No) != Arm::No {
            self.context.process.queue_disarmed();
        }
        if let Some(number) = self.number.get() {
            self.context.process.moderated.remove(*number);
        }
        let cookie = self.cookie.load(Ordering::Acquire);
        if let Some(channel) = &self.channel {
            channel.forget(|of| *of == cookie);
        }
        self.context
            .events
            .forget(|event| event.kind == IBV_EVENT_CQ_ERR && event.element == cookie);
        Ok(())
    }

    fn raise_error(&self) {
        let element = self.cookie.load(Ordering::Acquire);
        self.context.events.push(AsyncEvent {
            kind: IBV_EVENT_CQ_ERR,
            element,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Completion {
    #[inline]
    fn retire(&self) {
        if let Some((queue, position)) = &self.retire {
            queue.fetch_max(*position, Ordering::Relaxed);
        }
    }
}
