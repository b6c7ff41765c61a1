//! Completions that a poll takes without the ring: those of messages that the polling thread serves
//! itself while the queue is empty.
//!
//! Order: completions of one work queue are added under its lock, in the order of posting. A
//! completion is only taken here while the ring is empty, so all earlier ones of its work queue
//! were taken by polls before; later ones go through the ring, or are taken here after it.

use super::ring::CqEntry;
use super::{Adapter, Completion, Cq, CqPush};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::ibv_wc;

/// The place for completions that a poll returns.
pub struct Taking<'a, A: Adapter> {
    queue: &'a Cq<A>,
    target: &'a mut [ibv_wc],
    count: usize,
}

impl<'a, A: Adapter> Taking<'a, A> {
    /// Returns the place of a thread that polls `queue` for `target`.
    #[inline]
    pub(super) fn new(queue: &'a Cq<A>, target: &'a mut [ibv_wc]) -> Taking<'a, A> {
        Taking {
            queue,
            target,
            count: 0,
        }
    }

    /// Returns how many completions were taken.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number by which the adapter knows the queue.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.queue.number()
    }

    /// Returns whether the poll has as many completions as it wants. One that only makes progress
    /// wants none, and is never full.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count == self.target.len() && self.count > 0
    }

    /// Returns whether the poll will return a completion.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.count > 0 || !self.queue.is_empty()
    }

    /// Takes a completion of `queue`, if that is the polled queue and it may pass the ring.
    #[inline(always)]
    fn is_taken(&mut self, queue: &Cq<A>, completion: &Completion<'_>) -> bool {
        if !std::ptr::eq(queue, self.queue) || !queue.may_pass_ring() {
            return false;
        }
        let Some(place) = self.target.get_mut(self.count) else {
            return false;
        };
        *place = completion.wc;
        self.count += 1;
        if let Some((retired, position)) = completion.retire {
            let entry = CqEntry {
                wc: completion.wc,
                retired: Arc::as_ptr(retired),
                position,
            };
            // SAFETY: the counter is live. Completions of its send queue come here one at a time,
            // under the queue's lock, and all earlier ones were retired before the ring was empty.
            unsafe { entry.retire() };
        }
        true
    }
}

impl<A: Adapter> Cq<A> {
    /// Adds a completion, for a thread that may be polling the queue at this moment.
    #[inline(always)]
    pub(crate) fn push_or_take(
        &self,
        completion: Completion<'_>,
        solicited: bool,
        taking: Option<&mut Taking<'_, A>>,
    ) -> CqPush {
        let Some(taking) = taking else {
            return self.push(completion, solicited);
        };
        match taking.is_taken(self, &completion) {
            true => CqPush::Stored,
            false => self.push_untaken(completion, solicited),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_untaken(&self, completion: Completion<'_>, solicited: bool) -> CqPush {
        self.push(completion, solicited)
    }

    #[inline]
    fn may_pass_ring(&self) -> bool {
        // SYNC POINT completion: with Acquire, the polls that have emptied the ring are over.
        let head = self.head.load(Ordering::Acquire);
        head == self.tail.load(Ordering::Acquire) && !self.uses_ring_only.load(Ordering::Relaxed)
    }
}
