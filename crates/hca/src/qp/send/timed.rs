//! Plain RDMA writes and reads of an emulated adapter ([`crate::emulation`]): posted, executed when
//! they are due, and completed without a pending work request each.
//!
//! They are the latest requests of the queue: pending ones come before them. Any other call or
//! event of the queue pair takes the send queue's lock by [`Qp::lock_send`], which first turns them
//! into pending requests on the link ([`SendQueue::settle`]); an obstacle does so, too. So
//! this module decides nothing about retries, flushes or failures.

use super::full::full;
use super::request::RequestStage;
use super::{Backoff, SendQueue, SendRequest};
use crate::causes::link::Medium;
use crate::causes::link::is_cut;
use crate::causes::passage::{Executed, Posted};
use crate::emulation::schedule::{Due, Posting, Way};
use crate::emulation::work::{self, Work};
use crate::emulation::{self, Emulation};
use crate::link;
use crate::observed;
use crate::qp::Qp;
use crate::qp::inline_data::gather_inline;
use crate::qp::requester::direct::CHUNK;
use crate::qp::terms::is_answered;
use std::collections::VecDeque;
use std::sync::Arc;
use verbena_abi::*;
use verbena_emulation::lateness::Side;
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::table::Times;
use verbena_hca_os::errno::Result;

/// Most bytes of inline data: longer requests become pending ones.
const INLINE: usize = 64;

/// A request that is not complete.
struct TimedRequest {
    index: u64,
    psn: u32,
    wr_id: u64,
    opcode: ibv_wr_opcode,
    flags: u32,
    length: u32,
    /// Its buffer, unless it is inline.
    address: u64,
    lkey: u32,
    remote_address: u64,
    rkey: u32,
    is_signalled: bool,
    due: Due,
    /// Nanoseconds from posting to completion.
    time: u64,
    executed: Option<Executed>,
    inline: [u8; INLINE],
}

impl TimedRequest {
    fn buffer(&self) -> ibv_sge {
        let is_inline = self.flags & IBV_SEND_INLINE != 0;
        ibv_sge {
            addr: match is_inline {
                true => self.inline.as_ptr() as u64,
                false => self.address,
            },
            length: self.length,
            lkey: self.lkey,
        }
    }

    fn request<'a>(&self, buffers: &'a [ibv_sge]) -> SendRequest<'a> {
        SendRequest {
            wr_id: self.wr_id,
            opcode: self.opcode,
            flags: self.flags,
            sges: buffers,
            remote_address: self.remote_address,
            rkey: self.rkey,
            ..SendRequest::default()
        }
    }

    /// Returns its passage over the link from a port.
    fn posted(&self, port: u8) -> Posted {
        let is_fetch = is_answered(self.opcode);
        let length = u64::from(self.length);
        Posted {
            index: self.index,
            now: self.due.arrival,
            port,
            medium: Medium::Request,
            bytes: if is_fetch { 0 } else { length },
            answer_bytes: if is_fetch { length } else { 0 },
            is_fetch,
            // Without rules nothing is repeated.
            retries: None,
            completion: self.due.completion,
            time: self.time,
            lead: self.due.lead,
            work: Work::Copy,
            is_signalled: self.is_signalled,
        }
    }
}

/// The operation, placement and size of a request, on which its times depend.
type Key = (Operation, Placement, u64);

/// Those of a send queue.
#[derive(Default)]
pub(super) struct TimedRequests {
    /// In the order of posting; those executed come first.
    waiting: VecDeque<TimedRequest>,
    executed: usize,
    /// The times of the last one.
    times: Option<(Key, Times)>,
}

impl TimedRequests {
    /// Returns the times of a request.
    fn times(&mut self, emulation: &Emulation, posting: &Posting) -> Times {
        let (operation, placement) = posting.kind();
        let key = (operation, placement, posting.bytes);
        match self.times {
            Some((known, times)) if known == key => times,
            _ => {
                let times = emulation.times(posting);
                self.times = Some((key, times));
                times
            }
        }
    }

    /// Returns the time of the next execution or completion; u64::MAX if there is none.
    fn next(&self) -> u64 {
        let next = self.waiting.get(self.executed);
        let first = self.waiting.front().and_then(|one| one.executed);
        let arrival = next.map_or(u64::MAX, |one| one.due.arrival);
        arrival.min(first.map_or(u64::MAX, |one| one.completion))
    }
}

impl SendQueue {
    /// Returns whether there are requests that are not pending ones.
    #[inline]
    pub(super) fn has_timed(&self) -> bool {
        let has_some = |timed: &TimedRequests| !timed.waiting.is_empty();
        self.timed.as_deref().is_some_and(has_some)
    }

    /// Turns them into pending requests.
    pub(super) fn settle_timed(&mut self) {
        let Some(mut timed) = self.timed.take() else {
            return;
        };
        for timed_one in timed.waiting.drain(..) {
            let buffers = [timed_one.buffer()];
            let one = self.pending.append();
            one.fill(&timed_one.request(&buffers), timed_one.index, timed_one.psn);
            if timed_one.executed.is_some() {
                one.epoch = self.epoch;
                one.is_started = true;
                one.stage = RequestStage::Finished(IBV_WC_SUCCESS);
                self.begun += 1;
            }
            let posted = timed_one.posted(self.port);
            if let Some(passages) = self.passages() {
                passages.resume(&posted, timed_one.executed);
            }
        }
        timed.executed = 0;
        self.timed = Some(timed);
    }

    /// Returns whether requests must go the general way.
    fn hinders_timed(&self) -> bool {
        self.causes.as_ref().is_none_or(|causes| causes.has_rules())
            || self.packets.is_some()
            || self.is_lost
            || observed::is_any()
            || link::has_failed()
            || link::is_down(self.port)
            || is_cut(self.port)
    }
}

impl Qp {
    /// Posts a plain write or read of an emulated adapter, and keeps the thread busy as long as
    /// that would. Returns None, without effect, if it must become a pending request.
    #[inline(never)]
    pub(super) fn post_in_time(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        let emulation = emulation::own()?;
        let is_read = request.opcode == IBV_WR_RDMA_READ;
        if (request.opcode != IBV_WR_RDMA_WRITE && !is_read)
            || self.state() != IBV_QPS_RTS
            || send.hinders_timed()
            || !matches!(send.backoff, Backoff::None | Backoff::Link(_))
        {
            return None;
        }
        let length = self.plain_length(send, request, CHUNK as u32)?;
        let buffer = request.sges.first()?;
        if request.is_inline() && (is_read || length as usize > INLINE) {
            return None;
        }
        let channel = send.channel.as_ref()?;
        if channel.peer.is_dead() {
            return None;
        }
        let peer = channel.peer.identity;
        if send.posted - send.retired.position() >= send.capacity {
            return Some(Err(full(send.capacity)));
        }
        let now = send.passages()?.clock.read();
        let mut timed = send.timed.take().unwrap_or_default();
        let nodes = self.process.nodes.get();
        let posting = Posting {
            opcode: request.opcode,
            is_datagram: false,
            flags: request.flags,
            bytes: length.into(),
            now,
            peer: nodes.and_then(|nodes| nodes.of(peer)),
            queue_pair: self.number,
            way: Way::Memory,
        };
        let times = timed.times(emulation, &posting);
        let due = emulation.schedule_with(&posting, &times, nodes);
        let passages = send.passages()?;
        let ordered = passages.in_order(due);
        passages.set_posting(now, due.posted);
        let mut one = TimedRequest {
            index: send.posted,
            psn: send.next_psn,
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.flags,
            length,
            address: buffer.addr,
            lkey: buffer.lkey,
            remote_address: request.remote_address,
            rkey: request.rkey,
            is_signalled: self.is_signalled(request.flags),
            due: ordered,
            time: (due.completion - now).max(1),
            executed: None,
            inline: [0; INLINE],
        };
        if request.is_inline() {
            // SAFETY: the application keeps inline data readable while it posts, and there is space
            // for `length` bytes, the sum of the buffers.
            unsafe { gather_inline(request.sges, 0, one.inline.as_mut_ptr(), length as usize) };
        }
        timed.waiting.push_back(one);
        send.timed = Some(timed);
        send.is_unsettled = true;
        send.posted += 1;
        send.next_psn = (send.next_psn + send.packets(request.opcode, length.into())) & 0xff_ffff;
        self.end_posting(send);
        Some(Ok(()))
    }

    /// Executes and completes the timed requests that are due, and sets the time of the next ones.
    pub(super) fn continue_timed(self: &Arc<Qp>, send: &mut SendQueue) {
        if send.has_timed()
            && let Some(passages) = send.passages()
        {
            let mut now = passages.clock.read();
            self.execute_timed(send, &mut now);
            self.follow_timed(send);
        }
    }

    /// Has the queue pair woken for the next timed request. Those that wait for pending requests
    /// are continued with them.
    pub(super) fn follow_timed(self: &Arc<Qp>, send: &mut SendQueue) {
        if send.pending.is_empty()
            && let Some(timed) = send.timed.as_deref()
        {
            let next = timed.next();
            self.continue_at(send, next);
        }
    }

    /// Executes the requests that are due at a time, which it follows, and completes those executed
    /// before, if it is their turn. Returns whether there were any.
    pub(super) fn execute_timed(self: &Arc<Qp>, send: &mut SendQueue, now: &mut u64) -> bool {
        let Some(emulation) = emulation::own() else {
            return false;
        };
        let Some(mut timed) = send.timed.take() else {
            return false;
        };
        let mut worked = false;
        let mut is_hindered = false;
        loop {
            let executed = timed.executed;
            if let Some(one) = timed.waiting.get_mut(executed)
                && one.due.arrival <= *now
                && send.begun == send.pending.len()
                && !send.has_outstanding()
            {
                match self.execute_one(send, emulation, one, *now) {
                    Some(end) => *now = end,
                    None => {
                        is_hindered = true;
                        break;
                    }
                }
                timed.executed += 1;
            } else if executed > 0
                && send.pending.is_empty()
                && let Some(one) = timed.waiting.front()
                && let Some(executed) = one.executed
                && executed.completion <= *now
            {
                self.complete_one(send, emulation, one, *now);
                timed.waiting.pop_front();
                timed.executed -= 1;
            } else {
                break;
            }
            worked = true;
        }
        send.timed = Some(timed);
        if is_hindered {
            send.settle();
            self.transmit(send);
        }
        worked
    }

    /// Executes a request that is due at this time. Returns the time of its end; none, without
    /// effect, if it must go the general way.
    fn execute_one(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        emulation: &Emulation,
        one: &mut TimedRequest,
        now: u64,
    ) -> Option<u64> {
        if send.hinders_timed() {
            return None;
        }
        let buffers = [one.buffer()];
        let (request, index, psn) = (one.request(&buffers), one.index, one.psn);
        match one.opcode {
            IBV_WR_RDMA_READ => self.read_plain(send, &request, index, psn)?,
            _ => self.write_plain(send, &request, index, psn).map(drop)?,
        }
        let (arrival, lead) = (one.due.arrival, one.due.lead.arrival);
        let is_off = emulation.note(Side::Arrival, now, arrival, lead, one.time);
        let end = send.passages()?.clock.read();
        work::note(Work::Copy, one.length.into(), end - now);
        one.executed = Some(Executed {
            begun: now,
            is_off,
            completion: end.max(one.due.completion),
        });
        Some(end)
    }

    fn complete_one(&self, send: &SendQueue, emulation: &Emulation, one: &TimedRequest, now: u64) {
        let (due, lead) = (one.due.completion, one.due.lead.completion);
        // The end of others is not looked for.
        let is_off = one.is_signalled && emulation.note(Side::Completion, now, due, lead, one.time);
        emulation.note_request(is_off || one.executed.is_some_and(|executed| executed.is_off));
        if one.is_signalled {
            let (opcode, length) = (one.opcode, one.length.into());
            self.push_send(send, one.wr_id, opcode, length, one.index, IBV_WC_SUCCESS);
        }
    }
}
