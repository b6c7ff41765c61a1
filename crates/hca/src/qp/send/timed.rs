//! Plain RDMA writes and reads of an emulated adapter ([`crate::emulation`]): posted, executed when
//! they are due, and completed without a pending work request each.
//!
//! They are the latest requests of the queue: pending ones come before them. Any other call or
//! event of the queue pair takes the send queue's lock by [`Qp::lock_send`], which first turns them
//! into pending requests on the link ([`SendQueue::settle`]); an obstacle does so, too. So
//! this module decides nothing about retries, flushes or failures.

use super::full::full;
use super::request::RequestStage;
use super::timed_state::{INLINE, TimedRequest, TimedRequests};
use super::{Backoff, SendQueue, SendRequest};
use crate::causes::link::is_cut;
use crate::causes::passage::Executed;
use crate::emulation::schedule::{Posting, Way};
use crate::emulation::work::{self, Work};
use crate::emulation::{self, Emulation};
use crate::link;
use crate::observed;
use crate::qp::Qp;
use crate::qp::inline_data::gather_inline;
use std::sync::Arc;
use verbena_abi::*;
use verbena_emulation::lateness::Side;
use verbena_hca_os::errno::Result;

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

    /// Returns whether all earlier requests have been executed, so that a later one may be.
    fn may_execute_timed(&self) -> bool {
        self.begun == self.pending.len() && !self.has_outstanding() && !self.has_failed()
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
        let length = self.plain_access_length(send, request)?;
        let buffer = request.sges.first()?;
        if request.is_inline() && (is_read || length as usize > INLINE) {
            return None;
        }
        let channel = send.channel.as_ref()?;
        if channel.peer.is_dead() {
            return None;
        }
        let peer = channel.peer.identity;
        if !send.has_room() {
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

    /// Has the queue pair woken for the next timed request, which completes after the pending ones.
    /// Those that pending requests keep from their execution are continued with them.
    pub(super) fn follow_timed(self: &Arc<Qp>, send: &mut SendQueue) {
        if send.may_execute_timed()
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
        if timed.next() <= *now
            && let Some(passages) = send.passages()
        {
            // The time may have been read before other work.
            *now = passages.clock.read();
        }
        let mut worked = false;
        let mut is_hindered = false;
        loop {
            let executed = timed.executed;
            if let Some(one) = timed.waiting.get_mut(executed)
                && one.due.arrival <= *now
                && send.may_execute_timed()
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
