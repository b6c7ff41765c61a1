//! Division of progress between polling threads and the progress thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::Result;
use verbena_hca_os::sync::{is_patient, look_again_later};
use verbena_hca_shm::context_table::ContextTable;
use verbena_hca_shm::sleep;

/// Words by which threads leave progress to each other.
pub(crate) struct Activity {
    /// The descriptor that the progress thread sleeps on.
    doorbell: Doorbell,
    /// Number of completion queues armed for an event. While it is not 0 the progress thread must
    /// not stay away, unless the program goes on polling.
    armed_queues: AtomicUsize,
    /// Number of armings of completion queues so far.
    armings: AtomicUsize,
    /// Set by polling threads and cleared by the progress thread's looks; the thread stays away
    /// while it is set again each time.
    is_polled: AtomicBool,
    /// Set while the progress thread makes progress: polling threads yield to it now and then.
    thread_works: AtomicBool,
    stopping: AtomicBool,
}

impl Activity {
    /// Returns the state of a process without activity.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub(super) fn new() -> Result<Activity> {
        Ok(Activity {
            doorbell: Doorbell::new()?,
            armed_queues: AtomicUsize::new(0),
            armings: AtomicUsize::new(0),
            is_polled: AtomicBool::new(false),
            thread_works: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    pub(super) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Wakes the progress thread.
    pub(crate) fn ring(&self) {
        self.doorbell.ring();
    }

    /// Counts a completion queue that wants an event: peers ring from now on.
    pub(super) fn queue_armed(&self, contexts: &ContextTable) {
        self.armed_queues.fetch_add(1, Ordering::SeqCst);
        sleep::want_rings(contexts.armed(), &self.armings);
    }

    /// Notes that an armed queue is armed once more: the arming thread may be about to sleep.
    pub(super) fn queue_armed_again(&self, contexts: &ContextTable) {
        sleep::want_rings_still(contexts.armed(), &self.armings);
    }

    /// Notes that a queue had its event or is destroyed.
    pub(super) fn queue_disarmed(&self) {
        self.armed_queues.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether a completion queue wants an event.
    pub(crate) fn has_armed_queue(&self) -> bool {
        self.armed_queues.load(Ordering::SeqCst) > 0
    }

    /// Returns the number of armings so far.
    #[inline]
    pub(super) fn armings(&self, order: Ordering) -> usize {
        self.armings.load(order)
    }

    /// Notes that a thread polls. Polling threads share the word, and only the progress thread
    /// clears it.
    #[inline]
    pub(super) fn note_poll(&self) {
        if !self.is_polled.load(Ordering::Relaxed) {
            self.is_polled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a poll has nothing to note, and need not yield to the progress thread. If
    /// so, counts it as [`Activity::yield_to_thread`] does.
    #[inline]
    pub(super) fn is_quiet(&self, looks: &mut u32) -> bool {
        let next = match self.thread_works.load(Ordering::Relaxed) {
            true if is_patient(*looks) => *looks + 1,
            true => return false,
            false => 0,
        };
        let is_noted = self.is_polled.load(Ordering::Relaxed);
        if is_noted {
            *looks = next;
        }
        is_noted
    }

    /// Returns whether a thread has polled since the last call.
    pub(super) fn take_polled(&self) -> bool {
        self.is_polled.swap(false, Ordering::Relaxed)
    }

    /// Notes whether the progress thread makes progress.
    pub(super) fn set_thread_works(&self, works: bool) {
        self.thread_works.store(works, Ordering::Relaxed);
    }

    /// Yields to the progress thread now and then: it may hold the work that this thread polls for,
    /// and wait for the processor that the polling takes.
    #[inline]
    pub(super) fn yield_to_thread(&self, looks: &mut u32) {
        match self.thread_works.load(Ordering::Relaxed) {
            true => look_again_later(looks),
            false => *looks = 0,
        }
    }

    /// Notes that the process ends. Returns whether that was known.
    pub(super) fn stop(&self) -> bool {
        self.stopping.swap(true, Ordering::SeqCst)
    }

    /// Returns whether the process ends.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
