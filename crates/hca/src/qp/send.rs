//! The send queue: posting, order, waiting, completion.
//!
//! A request that can be executed at once and is the only one leaves no trace but its completion. Others wait in
//! `unfinished`, in order: first those that were sent and await an answer, then those not begun.

use crate::ah::AddressHandle;
use crate::cq::Completion;
use crate::errno::{Errno, Result};
use crate::memory::region::Region;
use crate::memory::window::Window;
use crate::process::link::Outbound;
use crate::qp::Qp;
use crate::qp::message::{rnr_nanoseconds, timeout_nanoseconds};
use crate::qp::requester::Outcome;
use crate::receive::SgeList;
use crate::sys::clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use verbena_abi::*;

/// A send work request, as posted (ibv_post_send(3)). Which fields have a meaning follows from the opcode.
#[derive(Clone, Copy)]
pub struct SendRequest<'a> {
    /// The application's identifier.
    pub wr_id: u64,
    /// IBV_WR_*.
    pub opcode: ibv_wr_opcode,
    /// IBV_SEND_*.
    pub flags: u32,
    /// Immediate data (as it is, network order) or key to invalidate.
    pub immediate: u32,
    /// Local buffers; with IBV_SEND_INLINE their keys mean nothing.
    pub sges: &'a [ibv_sge],
    /// Address in the peer.
    pub remote_address: u64,
    /// Key of the peer.
    pub rkey: u32,
    /// Operand of an atomic.
    pub compare_add: u64,
    /// Second operand of compare-and-swap; the value of an atomic write.
    pub swap: u64,
    /// XRC SRQ number.
    pub srq: u32,
    /// Destination of a datagram.
    pub address: Option<&'a Arc<AddressHandle>>,
    /// Queue pair number of a datagram's destination.
    pub remote_qpn: u32,
    /// Its queue key.
    pub remote_qkey: u32,
    /// What to bind a window to.
    pub bind: Option<Bind<'a>>,
}

/// The bind work request.
#[derive(Clone, Copy)]
pub struct Bind<'a> {
    /// The window.
    pub window: &'a Arc<Window>,
    /// The region, if the window is to be bound to something.
    pub region: Option<&'a Arc<Region>>,
    /// The window's new key.
    pub key: u32,
    /// First address, in the region's terms.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub length: u64,
    /// IBV_ACCESS_*.
    pub access: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Not begun, or only partly sent.
    #[default]
    Waiting,
    /// On its way.
    Sent,
    /// Has a result that waits for those before it.
    Finished(ibv_wc_status),
}

/// A request that is not complete.
#[derive(Default)]
pub struct Unfinished {
    wr_id: u64,
    opcode: ibv_wr_opcode,
    flags: u32,
    immediate: u32,
    sges: SgeList,
    inline: Vec<u8>,
    remote_address: u64,
    rkey: u32,
    compare_add: u64,
    swap: u64,
    srq: u32,
    address: Option<Arc<AddressHandle>>,
    remote_qpn: u32,
    remote_qkey: u32,
    bind: Option<OwnedBind>,
    stage: Stage,
    pub(super) index: u64,
    pub(super) psn: u32,
    /// Count of go-backs when it was sent: an acknowledgement of an earlier sending means nothing.
    epoch: u32,
    /// Bytes sent, or bytes of the answer received.
    pub(super) progress: u64,
}

struct OwnedBind {
    window: Arc<Window>,
    region: Option<Arc<Region>>,
    key: u32,
    address: u64,
    length: u64,
    access: u32,
}

impl Unfinished {
    fn of(request: &SendRequest<'_>, index: u64, psn: u32, mut inline: Vec<u8>) -> Unfinished {
        let mut sges = SgeList::of(request.sges);
        inline.clear();
        if request.flags & IBV_SEND_INLINE != 0 {
            for sge in request.sges.iter().filter(|sge| sge.length > 0) {
                // SAFETY: inline data is read during the post, when the application vouches for it.
                let bytes = unsafe {
                    std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize)
                };
                inline.extend_from_slice(bytes);
            }
            let length = inline.len() as u32;
            sges = SgeList::of(&[ibv_sge {
                addr: inline.as_ptr() as u64,
                length,
                lkey: 0,
            }]);
        }
        Unfinished {
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.flags,
            immediate: request.immediate,
            sges,
            inline,
            remote_address: request.remote_address,
            rkey: request.rkey,
            compare_add: request.compare_add,
            swap: request.swap,
            srq: request.srq,
            address: request.address.cloned(),
            remote_qpn: request.remote_qpn,
            remote_qkey: request.remote_qkey,
            bind: request.bind.map(|bind| OwnedBind {
                window: bind.window.clone(),
                region: bind.region.cloned(),
                key: bind.key,
                address: bind.address,
                length: bind.length,
                access: bind.access,
            }),
            stage: Stage::Waiting,
            index,
            psn,
            epoch: 0,
            progress: 0,
        }
    }

    pub(super) fn request(&self) -> SendRequest<'_> {
        SendRequest {
            wr_id: self.wr_id,
            opcode: self.opcode,
            flags: self.flags,
            immediate: self.immediate,
            sges: self.sges.as_slice(),
            remote_address: self.remote_address,
            rkey: self.rkey,
            compare_add: self.compare_add,
            swap: self.swap,
            srq: self.srq,
            address: self.address.as_ref(),
            remote_qpn: self.remote_qpn,
            remote_qkey: self.remote_qkey,
            bind: self.bind.as_ref().map(|bind| Bind {
                window: &bind.window,
                region: bind.region.as_ref(),
                key: bind.key,
                address: bind.address,
                length: bind.length,
                access: bind.access,
            }),
        }
    }
}

/// Why nothing is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Nothing keeps it.
    None,
    /// Until this time, because the receiver was not ready.
    NotReady(u64),
    /// Until this time, because nobody answers.
    Lost(u64),
}

/// The requester's side of a queue pair.
pub struct SendQueue {
    capacity: u64,
    posted: u64,
    retired: Arc<AtomicU64>,
    unfinished: VecDeque<Unfinished>,
    /// How many of `unfinished` are sent or finished.
    begun: usize,
    /// How many are sent and not answered.
    sent: usize,
    /// Go-backs so far.
    pub(super) epoch: u32,
    pub(super) channel: Option<Arc<Outbound>>,
    pub(super) verified: bool,
    pub(super) destination: u32,
    pub(super) mtu: u32,
    pub(super) initial_psn: u32,
    pub(super) max_rd_atomic: u8,
    pub(super) reads_in_flight: u32,
    pub(super) notify_drained: bool,
    next_psn: u32,
    timeout: u8,
    retry_count: u8,
    rnr_retry: u8,
    rnr_left: u8,
    pause: Pause,
    lost_since: Option<u64>,
    seeking: bool,
    spare: Vec<Vec<u8>>,
}

impl SendQueue {
    pub(super) fn new(capacity: u32) -> SendQueue {
        SendQueue {
            capacity: u64::from(capacity),
            posted: 0,
            retired: Arc::default(),
            unfinished: VecDeque::new(),
            begun: 0,
            sent: 0,
            epoch: 0,
            channel: None,
            verified: false,
            destination: 0,
            mtu: 4096,
            initial_psn: 0,
            max_rd_atomic: 0,
            reads_in_flight: 0,
            notify_drained: false,
            next_psn: 0,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            rnr_left: 0,
            pause: Pause::None,
            lost_since: None,
            seeking: false,
            spare: Vec::new(),
        }
    }

    pub(super) fn configure(&mut self, attributes: &ibv_qp_attr) {
        self.mtu = 128 << attributes.path_mtu.clamp(1, 5);
        self.timeout = attributes.timeout;
        self.retry_count = attributes.retry_cnt;
        self.rnr_retry = attributes.rnr_retry;
        self.rnr_left = attributes.rnr_retry;
        self.max_rd_atomic = attributes.max_rd_atomic;
        if self.destination != attributes.dest_qp_num {
            self.destination = attributes.dest_qp_num;
            self.forget_channel();
        }
    }

    pub(super) fn set_psn(&mut self, psn: u32) {
        self.next_psn = psn;
        self.initial_psn = psn;
        self.verified = false;
    }

    pub(super) fn forget_channel(&mut self) {
        self.channel = None;
        self.verified = false;
    }

    pub(super) fn clear(&mut self) {
        self.unfinished.clear();
        self.begun = 0;
        self.sent = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.reads_in_flight = 0;
        self.pause = Pause::None;
        self.lost_since = None;
        self.retired.store(self.posted, Ordering::Relaxed);
        self.forget_channel();
    }

    pub(super) fn take_unfinished(&mut self) -> VecDeque<Unfinished> {
        self.begun = 0;
        self.sent = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.reads_in_flight = 0;
        self.pause = Pause::None;
        std::mem::take(&mut self.unfinished)
    }

    /// Whether anything is on its way.
    pub(super) fn has_outstanding(&self) -> bool {
        self.sent > 0
    }

    /// The one place where a request's stage changes.
    fn set_stage(&mut self, place: usize, stage: Stage) {
        let Some(one) = self.unfinished.get_mut(place) else {
            return;
        };
        let before = std::mem::replace(&mut one.stage, stage);
        let reads = u32::from(is_answered(one.opcode));
        if before == Stage::Sent {
            self.sent -= 1;
            self.reads_in_flight -= reads;
        }
        if stage == Stage::Sent {
            self.sent += 1;
            self.reads_in_flight += reads;
        }
    }

    fn stage(&self, place: usize) -> Option<Stage> {
        self.unfinished.get(place).map(|one| one.stage)
    }

    fn find_by_psn(&mut self, psn: u32) -> Option<usize> {
        let begun = self.begun;
        self.unfinished
            .iter()
            .take(begun)
            .position(|one| one.psn == psn && one.stage == Stage::Sent)
    }

    /// The request that was sent as number `index` after `epoch` go-backs, if it has not been sent again since.
    fn find_sent(&self, index: u64, epoch: u32) -> Option<usize> {
        let first = self.unfinished.front()?.index;
        let place = usize::try_from(index.checked_sub(first)?).ok()?;
        let one = self.unfinished.get(place)?;
        (one.stage == Stage::Sent && one.epoch == epoch).then_some(place)
    }

    /// Everything from `place` on is to be sent again.
    fn go_back(&mut self, place: usize) {
        self.epoch = self.epoch.wrapping_add(1);
        for later in place..self.unfinished.len() {
            if self.stage(later) == Some(Stage::Sent) {
                self.set_stage(later, Stage::Waiting);
                if let Some(one) = self.unfinished.get_mut(later) {
                    one.progress = 0;
                }
            }
        }
        self.begun = self.begun.min(place);
    }

    fn packets(&self, length: u64) -> u32 {
        if length <= u64::from(self.mtu) {
            return 1;
        }
        (length.div_ceil(u64::from(self.mtu)).max(1) & 0xff_ffff) as u32
    }
}

/// Whether the peer sends something back that the completion waits for.
pub(super) fn is_answered(opcode: ibv_wr_opcode) -> bool {
    matches!(
        opcode,
        IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_CMP_AND_SWP
            | IBV_WR_ATOMIC_FETCH_AND_ADD
            | IBV_WR_ATOMIC_WRITE
            | IBV_WR_FLUSH
    )
}

/// Posts requests one after another under one lock; what was posted is on its way when this is dropped.
pub struct Poster<'a> {
    queue_pair: &'a Arc<Qp>,
    send: MutexGuard<'a, SendQueue>,
}

impl Qp {
    /// Begins to post.
    #[inline]
    pub fn poster(self: &Arc<Qp>) -> Poster<'_> {
        Poster {
            queue_pair: self,
            send: self.lock_send(),
        }
    }
}

impl Poster<'_> {
    /// Posts a request.
    ///
    /// # Errors
    /// EINVAL for a state, opcode or list that is not allowed; ENOMEM when the queue is full. Later failures are
    /// completions.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        self.queue_pair.post_one(&mut self.send, request)
    }

    /// Whether so many requests can be posted now.
    ///
    /// # Errors
    /// EINVAL for a state that does not allow it; ENOMEM when they do not fit.
    pub fn check_room(&self, requests: usize) -> Result<()> {
        if matches!(
            self.queue_pair.state(),
            IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR
        ) {
            return Err(Errno::EINVAL);
        }
        let used = self.send.posted - self.send.retired.load(Ordering::Relaxed);
        if used + requests as u64 > self.send.capacity {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Whether a request is one that [`Poster::post`] takes when there is room.
    ///
    /// # Errors
    /// EINVAL for an opcode or list that is not allowed.
    pub fn check(&self, request: &SendRequest<'_>) -> Result<()> {
        self.queue_pair.check_request(request)
    }
}

impl Qp {
    #[inline]
    fn post_one(self: &Arc<Qp>, send: &mut SendQueue, request: &SendRequest<'_>) -> Result<()> {
        self.check_request(request)?;
        let state = self.state();
        if matches!(state, IBV_QPS_RESET | IBV_QPS_INIT | IBV_QPS_RTR) {
            return Err(Errno::EINVAL);
        }
        if send.posted - send.retired.load(Ordering::Relaxed) >= send.capacity {
            return Err(Errno::ENOMEM);
        }
        let index = send.posted;
        send.posted += 1;
        let length: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
        let psn = send.next_psn;
        send.next_psn = (psn + send.packets(length)) & 0xff_ffff;
        if state == IBV_QPS_RTS && send.unfinished.is_empty() && send.pause == Pause::None {
            let mut progress = 0;
            let outcome = self.execute(send, request, index, psn, &mut progress);
            if outcome == Outcome::Done {
                if self.signal_all || request.flags & IBV_SEND_SIGNALED != 0 {
                    self.push_send(
                        send,
                        request.wr_id,
                        request.opcode,
                        length,
                        index,
                        IBV_WC_SUCCESS,
                    );
                }
                return Ok(());
            }
            let inline = send.spare.pop().unwrap_or_default();
            let mut one = Unfinished::of(request, index, psn, inline);
            one.progress = progress;
            send.unfinished.push_back(one);
            self.settle(send, 0, outcome);
            self.finish(send);
            return Ok(());
        }
        let inline = send.spare.pop().unwrap_or_default();
        send.unfinished
            .push_back(Unfinished::of(request, index, psn, inline));
        if state == IBV_QPS_ERR {
            for flushed in send.take_unfinished() {
                self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
            }
        } else {
            self.pump(send);
        }
        Ok(())
    }

    fn check_request(&self, request: &SendRequest<'_>) -> Result<()> {
        if request.sges.len() > self.cap.max_send_sge.max(1) as usize {
            return Err(Errno::EINVAL);
        }
        let reliable = matches!(self.kind, IBV_QPT_RC | IBV_QPT_XRC_SEND);
        let allowed = match request.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => self.kind != IBV_QPT_XRC_RECV,
            IBV_WR_SEND_WITH_INV | IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => {
                reliable || self.kind == IBV_QPT_UC
            }
            IBV_WR_LOCAL_INV | IBV_WR_BIND_MW => reliable || self.kind == IBV_QPT_UC,
            opcode if is_answered(opcode) => reliable,
            _ => false,
        };
        let inline = request.flags & IBV_SEND_INLINE != 0;
        let has_inline = inline && !request.sges.is_empty();
        let inline_length: u64 = if has_inline {
            request.sges.iter().map(|sge| u64::from(sge.length)).sum()
        } else {
            0
        };
        if !allowed
            || inline_length > u64::from(self.cap.max_inline_data)
            || (has_inline && request.opcode == IBV_WR_RDMA_READ)
            || (self.kind == IBV_QPT_UD && request.address.is_none())
            || (request.opcode == IBV_WR_BIND_MW && request.bind.is_none())
        {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Sends what waits, as far as it goes.
    pub(super) fn pump(self: &Arc<Qp>, send: &mut SendQueue) {
        while send.begun < send.unfinished.len()
            && send.pause == Pause::None
            && self.state() == IBV_QPS_RTS
        {
            let place = send.begun;
            // A request that failed keeps all behind it, until it is completed below and flushes them.
            let failed = |one: &Unfinished| matches!(one.stage, Stage::Finished(status) if status != IBV_WC_SUCCESS);
            if place > 0 && send.unfinished.get(place - 1).is_some_and(failed) {
                break;
            }
            // Taken out for the time being, because executing needs the queue.
            let Some(one) = send.unfinished.get_mut(place).map(std::mem::take) else {
                break;
            };
            let mut progress = one.progress;
            let outcome = self.execute(send, &one.request(), one.index, one.psn, &mut progress);
            if let Some(slot) = send.unfinished.get_mut(place) {
                *slot = one;
                slot.progress = progress;
            }
            if !self.settle(send, place, outcome) {
                break;
            }
        }
        self.finish(send);
    }

    /// Notes what became of the request at `place`. Returns whether the next may go.
    fn settle(self: &Arc<Qp>, send: &mut SendQueue, place: usize, outcome: Outcome) -> bool {
        let stage = match outcome {
            Outcome::Done => Stage::Finished(IBV_WC_SUCCESS),
            Outcome::Sent => Stage::Sent,
            Outcome::Failed(status) => Stage::Finished(status),
            Outcome::Order | Outcome::NoRoom => return false,
            Outcome::Seek(number) => {
                self.seek(send, number);
                return self.lose(send, place);
            }
            Outcome::Lost => return self.lose(send, place),
        };
        send.set_stage(place, stage);
        let epoch = send.epoch;
        if let Some(one) = send.unfinished.get_mut(place) {
            one.epoch = epoch;
        }
        send.begun = send.begun.max(place + 1);
        send.lost_since = None;
        true
    }

    /// Nobody is there to answer: waits, and gives up after the acknowledgement timeout and all retries.
    fn lose(&self, send: &mut SendQueue, place: usize) -> bool {
        let now = clock::now();
        let since = *send.lost_since.get_or_insert(now);
        self.process.counters.shard().lost_retries.add(1);
        if self.kind == IBV_QPT_UD && now - since > 2_000_000_000 {
            return self.settle_lost(send, place, IBV_WC_SUCCESS);
        }
        if let Some(timeout) = timeout_nanoseconds(send.timeout).filter(|_| self.kind != IBV_QPT_UD)
        {
            let patience = timeout.saturating_mul(u64::from(send.retry_count) + 1);
            if now - since >= patience {
                return self.settle_lost(send, place, IBV_WC_RETRY_EXC_ERR);
            }
        }
        // The peer may be about to get ready: look soon, then less often.
        let wait = ((now - since) / 4).clamp(200_000, 20_000_000);
        send.pause = Pause::Lost(now + wait);
        self.set_timer(now + wait);
        false
    }

    fn settle_lost(&self, send: &mut SendQueue, place: usize, status: ibv_wc_status) -> bool {
        send.set_stage(place, Stage::Finished(status));
        send.begun = send.begun.max(place + 1);
        send.lost_since = None;
        true
    }

    fn set_timer(&self, deadline: u64) {
        if self.process.timers.set(deadline, self.number) {
            self.process.doorbell.ring();
        }
    }

    /// Completes what is finished, in order.
    fn finish(self: &Arc<Qp>, send: &mut SendQueue) {
        while let Some(&Unfinished {
            stage: Stage::Finished(status),
            ..
        }) = send.unfinished.front()
        {
            let Some(one) = send.unfinished.pop_front() else {
                break;
            };
            send.begun -= 1;
            self.complete_send(send, &one, status);
            if status != IBV_WC_SUCCESS {
                self.fail_after(send, status);
                break;
            }
            if one.inline.capacity() > 0 && send.spare.len() < 4 {
                send.spare.push(one.inline);
            }
        }
        self.check_drained(send);
    }

    /// After a failed request: the error state for reliable queue pairs, the send queue error state for the others.
    fn fail_after(&self, send: &mut SendQueue, _status: ibv_wc_status) {
        if matches!(self.kind, IBV_QPT_RC | IBV_QPT_XRC_SEND) {
            self.enter_error(send);
            return;
        }
        self.set_state(send, IBV_QPS_SQE);
        for flushed in send.take_unfinished() {
            self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
        }
    }

    pub(super) fn check_drained(&self, send: &mut SendQueue) {
        if send.notify_drained && self.state() == IBV_QPS_SQD && !send.has_outstanding() {
            send.notify_drained = false;
            self.raise(IBV_EVENT_SQ_DRAINED);
        }
    }

    pub(super) fn complete_send(&self, send: &SendQueue, one: &Unfinished, status: ibv_wc_status) {
        let signalled = self.signal_all || one.flags & IBV_SEND_SIGNALED != 0;
        if signalled || status != IBV_WC_SUCCESS {
            let length = one.sges.length();
            self.push_send(send, one.wr_id, one.opcode, length, one.index, status);
        }
    }

    #[inline]
    fn push_send(
        &self,
        send: &SendQueue,
        wr_id: u64,
        opcode: ibv_wr_opcode,
        length: u64,
        index: u64,
        status: ibv_wc_status,
    ) {
        if status != IBV_WC_SUCCESS {
            self.process.counters.shard().failed_completions.add(1);
        }
        let wc = ibv_wc {
            wr_id,
            status,
            opcode: completion_opcode(opcode),
            byte_len: length as u32,
            qp_num: self.number,
            vendor_err: vendor_error(status),
            ..ibv_wc::default()
        };
        if let Some(cq) = &self.send_cq {
            let retire = Some((send.retired.clone(), index + 1));
            cq.push(
                Completion {
                    wc,
                    timestamp: 0,
                    retire,
                },
                false,
            );
        }
    }

    /// A deadline has come, or room was made, or a connection.
    pub(crate) fn wake(self: &Arc<Qp>) {
        let mut send = self.lock_send();
        match send.pause {
            Pause::NotReady(until) | Pause::Lost(until) if clock::now() < until => return,
            _ => send.pause = Pause::None,
        }
        self.pump(&mut send);
    }

    /// The responder has dealt with a request.
    pub(crate) fn acknowledged(self: &Arc<Qp>, index: u64, epoch: u32) {
        let mut send = self.lock_send();
        let Some(place) = send.find_sent(index, epoch) else {
            return;
        };
        send.set_stage(place, Stage::Finished(IBV_WC_SUCCESS));
        send.rnr_left = send.rnr_retry;
        self.finish(&mut send);
        if send.begun < send.unfinished.len() {
            self.pump(&mut send);
        }
    }

    /// The peer died with a request on its way.
    pub(crate) fn peer_died(self: &Arc<Qp>, index: u64, epoch: u32) {
        let mut send = self.lock_send();
        if let Some(place) = send.find_sent(index, epoch) {
            self.conclude(&mut send, place, IBV_WC_RETRY_EXC_ERR);
        }
    }

    /// A request that was sent has failed.
    pub(super) fn conclude(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        place: usize,
        status: ibv_wc_status,
    ) {
        if matches!(self.kind, IBV_QPT_UC | IBV_QPT_UD) {
            // Unreliable: the requester never learns.
            send.set_stage(place, Stage::Finished(IBV_WC_SUCCESS));
            self.finish(send);
            return;
        }
        send.go_back(place + 1);
        send.set_stage(place, Stage::Finished(status));
        self.finish(send);
    }

    /// The responder's queue had no room for the request with this PSN.
    pub(super) fn not_ready(self: &Arc<Qp>, send: &mut SendQueue, psn: u32, timer: u8) {
        let Some(place) = send.find_by_psn(psn) else {
            return;
        };
        self.process.counters.shard().rnr_retries.add(1);
        if send.rnr_retry != 7 {
            if send.rnr_left == 0 {
                self.conclude(send, place, IBV_WC_RNR_RETRY_EXC_ERR);
                return;
            }
            send.rnr_left -= 1;
        }
        send.go_back(place);
        let until = clock::now() + rnr_nanoseconds(timer);
        send.pause = Pause::NotReady(until);
        self.set_timer(until);
    }

    /// The responder was not there for the request with this PSN.
    pub(super) fn lost(self: &Arc<Qp>, send: &mut SendQueue, psn: u32) {
        let Some(place) = send.find_by_psn(psn) else {
            return;
        };
        send.go_back(place);
        self.lose(send, place);
        self.finish(send);
    }

    pub(super) fn failed(self: &Arc<Qp>, send: &mut SendQueue, psn: u32, status: ibv_wc_status) {
        if let Some(place) = send.find_by_psn(psn) {
            self.conclude(send, place, status);
        }
    }

    /// The request with this PSN that awaits an answer.
    pub(super) fn awaiting(send: &mut SendQueue, psn: u32) -> Option<&mut Unfinished> {
        let place = send.find_by_psn(psn)?;
        send.unfinished
            .get_mut(place)
            .filter(|one| is_answered(one.opcode))
    }

    /// An answer is whole.
    pub(super) fn answer_is_whole(self: &Arc<Qp>, send: &mut SendQueue, psn: u32) {
        let Some(place) = send.find_by_psn(psn) else {
            return;
        };
        send.set_stage(place, Stage::Finished(IBV_WC_SUCCESS));
        self.finish(send);
        self.pump(send);
    }

    /// Makes the channel to the peer in the background of the caller's thread, if it can be made now.
    pub(super) fn seek_peer(self: &Arc<Qp>) {
        let destination = self.destination();
        if let Ok(channel) = self.process.connect_to_number(destination) {
            let mut send = self.lock_send();
            if send.destination == destination {
                send.channel = Some(channel);
                send.verified = false;
            }
        }
    }

    /// Has a thread of its own make the channel to the owner of `number`: the caller may be the progress thread, and
    /// holds a lock that the peer's answer may need.
    fn seek(self: &Arc<Qp>, send: &mut SendQueue, number: u32) {
        if std::mem::replace(&mut send.seeking, true) {
            return;
        }
        let queue_pair = self.clone();
        let started = std::thread::Builder::new()
            .name("verbena-connect".into())
            .spawn(move || {
                let _ = queue_pair.process.connect_to_number(number);
                let mut send = queue_pair.lock_send();
                send.seeking = false;
                send.pause = Pause::None;
                queue_pair.pump(&mut send);
            });
        if started.is_err() {
            send.seeking = false;
        }
    }
}

fn completion_opcode(opcode: ibv_wr_opcode) -> ibv_wc_opcode {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
        IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
        IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        IBV_WR_LOCAL_INV => IBV_WC_LOCAL_INV,
        IBV_WR_BIND_MW => IBV_WC_BIND_MW,
        IBV_WR_ATOMIC_WRITE => IBV_WC_ATOMIC_WRITE,
        IBV_WR_FLUSH => IBV_WC_FLUSH,
        _ => IBV_WC_SEND,
    }
}

/// Vendor syndrome: the status again, so that it is never 0 for a failure.
fn vendor_error(status: ibv_wc_status) -> u32 {
    if status == IBV_WC_SUCCESS {
        0
    } else {
        0x80 | status
    }
}
