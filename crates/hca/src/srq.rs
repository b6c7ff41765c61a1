//! Shared receive queues (ibv_post_srq_recv(3), ibv_create_srq(3)).

use crate::context::Context;
use crate::event::{AsyncEvent, EventQueue};
use crate::process::{Cq, Process};
use crate::receive::{Receive, ReceiveRing};
use crate::xrcd::Xrcd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use verbena_abi::*;
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::limits::{MAX_SGE, MAX_SRQ_WR};
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_memory::quota;
use verbena_hca_os::errno::Result;
use verbena_hca_os::lock::{Guard, Lock};
use verbena_hca_os::refused;
use verbena_hca_shm::context_table::QpRecord;

/// A shared receive queue.
pub struct Srq {
    process: Arc<Process>,
    events: Arc<EventQueue<AsyncEvent>>,
    pd: Arc<Pd>,
    number: u32,
    xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    cookie: AtomicUsize,
    users: AtomicUsize,
    /// Its share of the device's quota, until it is destroyed.
    quota_share: Mutex<Option<quota::QuotaShare>>,
    state: Lock<SrqState>,
}

pub(crate) struct SrqState {
    /// The waiting requests.
    pub(crate) ring: ReceiveRing,
    limit: u32,
}

impl Srq {
    /// Creates a shared receive queue; with `xrc`, one that XRC senders can address by number and
    /// that completes in the given queue.
    ///
    /// # Errors
    /// EINVAL for sizes beyond the device's limits; ENOMEM at the device's limit of queues or
    /// numbers.
    pub fn create(
        context: &Arc<Context>,
        pd: &Arc<Pd>,
        max_wr: u32,
        max_sge: u32,
        xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    ) -> Result<Arc<Srq>> {
        if max_wr == 0 || max_wr > MAX_SRQ_WR.as_u32() || max_sge > MAX_SGE.as_u32() {
            return Err(refused!(
                EINVAL,
                "attr.max_wr is {max_wr} and attr.max_sge {max_sge}: 1 to {MAX_SRQ_WR} (max_srq_wr \
                 of ibv_query_device) and at most {MAX_SGE} (max_srq_sge) are allowed"
            ));
        }
        let quota_share = quota::SHARED_RECEIVE_QUEUES.take()?;
        let process = &context.process;
        let number = if xrc.is_some() {
            process.allocate_number()?
        } else {
            0
        };
        pd.retain();
        if let Some((xrcd, cq)) = &xrc {
            cq.retain();
            xrcd.retain();
        }
        let srq = Arc::new(Srq {
            process: process.clone(),
            events: context.events.clone(),
            pd: pd.clone(),
            number,
            xrc,
            cookie: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            quota_share: Mutex::new(Some(quota_share)),
            state: Lock::new(SrqState {
                ring: ReceiveRing::new(max_wr, max_sge.max(1)),
                limit: 0,
            }),
        });
        if number != 0 {
            process.srqs.insert(number, &srq);
            srq.publish();
        }
        Ok(srq)
    }

    /// Publishes the queue's domains to peers, in the context table's record of its number.
    fn publish(&self) {
        let record = self.pd.memory().contexts().queue_pair(self.number);
        let xrcd = self.xrc.as_ref().map_or(0, |(xrcd, _)| xrcd.identity());
        record.pd.store(self.pd.number(), Ordering::Relaxed);
        record.xrcd.store(xrcd, Ordering::Relaxed);
        record.state.store(QpRecord::XRC_SRQ, Ordering::SeqCst);
    }

    /// Sets the cookie of this queue's events.
    pub fn set_cookie(&self, cookie: usize) {
        self.cookie.store(cookie, Ordering::Release);
    }

    /// Returns the XRC SRQ number, by which senders address it; 0 for a basic one.
    pub fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn pd(&self) -> u32 {
        self.pd.number()
    }

    pub(crate) fn xrc(&self) -> Option<&(Arc<Xrcd>, Arc<Cq>)> {
        self.xrc.as_ref()
    }

    /// Adds a receive request.
    ///
    /// # Errors
    /// As [`ReceiveRing::post`].
    #[inline]
    pub fn post(&self, wr_id: u64, sges: &[ibv_sge]) -> Result<()> {
        self.lock().ring.post(wr_id, sges)
    }

    /// Takes a request for an arriving message. [`Srq::note_used`] or [`Srq::put_back`] follows.
    pub(crate) fn take(&self) -> Option<Receive> {
        self.lock().ring.take()
    }

    /// Returns the length of the next request's buffers in bytes.
    pub(crate) fn next_length(&self) -> Option<u64> {
        self.lock().ring.next_length()
    }

    /// Puts a request back that was taken for a message that never arrived.
    pub(crate) fn put_back(&self, receive: Receive) {
        self.lock().ring.put_back(receive);
    }

    /// Notes that a taken request was used: raises the limit event when too few remain.
    pub(crate) fn note_used(&self) {
        self.compare_with_limit(self.lock());
    }

    /// Raises the limit event, once, if fewer requests wait than the limit (architecture
    /// specification, 10.2.9.1).
    #[inline]
    pub(crate) fn compare_with_limit(&self, mut state: Guard<'_, SrqState>) {
        if state.limit > 0 && state.ring.waiting() < state.limit as usize {
            if !planted::is(Bug::SrqLimit) {
                state.limit = 0;
            }
            drop(state);
            self.raise_limit_event();
        }
    }

    #[cold]
    #[inline(never)]
    fn raise_limit_event(&self) {
        let element = self.cookie.load(Ordering::Acquire);
        self.events.push(AsyncEvent {
            kind: IBV_EVENT_SRQ_LIMIT_REACHED,
            element,
        });
    }

    /// Changes size and limit (ibv_modify_srq(3)), either both or nothing.
    ///
    /// # Errors
    /// EINVAL for a size below the number of posted requests or beyond the device's limit, and for
    /// a limit beyond the size.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let mut state = self.lock();
        let capacity = max_wr.map_or(state.ring.capacity(), |max_wr| max_wr as usize);
        if capacity == 0 || capacity as u64 > MAX_SRQ_WR.get() || capacity < state.ring.waiting() {
            return Err(refused!(
                EINVAL,
                "max_wr is {capacity}: 1 to {MAX_SRQ_WR} (max_srq_wr of ibv_query_device) \
                 are allowed, and at least as many as are posted, {}",
                state.ring.waiting()
            ));
        }
        if let Some(limit) = limit.filter(|limit| *limit as usize > capacity) {
            return Err(refused!(
                EINVAL,
                "srq_limit is {limit}, and the queue has {capacity} (max_wr): a limit beyond that \
                 is always reached"
            ));
        }
        state.ring.set_capacity(capacity);
        if let Some(limit) = limit {
            state.limit = limit;
        }
        // The level counts, not its change: a limit above the present level raises its event at
        // once.
        self.compare_with_limit(state);
        Ok(())
    }

    /// Returns size, buffers of a request, and limit (ibv_query_srq(3)).
    pub fn query(&self) -> ibv_srq_attr {
        let state = self.lock();
        ibv_srq_attr {
            max_wr: state.ring.capacity() as u32,
            max_sge: state.ring.max_sge() as u32,
            srq_limit: state.limit,
        }
    }

    pub(crate) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the queue's life for the application.
    ///
    /// # Errors
    /// EBUSY while queue pairs use it.
    pub fn destroy(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) > 0 {
            return Err(refused!(
                EBUSY,
                "{} queue pairs receive from the queue: ibv_destroy_qp them first",
                self.users.load(Ordering::Relaxed)
            ));
        }
        if self.number != 0 {
            let record = self.pd.memory().contexts().queue_pair(self.number);
            record.state.store(0, Ordering::SeqCst);
            self.process.srqs.remove(self.number);
            self.process.membership.release_number(self.number);
        }
        if let Some((xrcd, cq)) = &self.xrc {
            cq.release();
            xrcd.release();
        }
        self.pd.release();
        let cookie = self.cookie.load(Ordering::Acquire);
        self.events.forget(|event| {
            matches!(event.kind, IBV_EVENT_SRQ_LIMIT_REACHED | IBV_EVENT_SRQ_ERR)
                && event.element == cookie
        });
        *self.quota_share.lock().unwrap_or_else(|e| e.into_inner()) = None;
        Ok(())
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.lock().ring.waiting()
    }

    /// As [`Srq::lock`], inlined for the thread that always takes the lock.
    #[inline(always)]
    pub(crate) fn lock_inlined(&self) -> Guard<'_, SrqState> {
        match self.state.try_lock_at_home() {
            Some(state) => state,
            None => self.lock_slowly(),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self) -> Guard<'_, SrqState> {
        self.state.lock()
    }

    /// Locks the queue. [`Srq::compare_with_limit`] follows if a request is taken.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, SrqState> {
        self.state.lock()
    }
}
