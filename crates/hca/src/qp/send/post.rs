//! Posting of send requests: validation, and immediate execution where possible.

use super::full::full;
use super::request::{RequestProgress, SendRequest};
use super::{Backoff, SendQueue};
use crate::qp::Qp;
use crate::qp::check;
use crate::qp::names::opcode_name;
use crate::qp::requester::outcome::Outcome;
use crate::qp::terms::{is_answered, sends_in};
use crate::qp::transition::state_name;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::lock::Guard;
use verbena_hca_os::refused;
use verbena_transport::state::Sends;

/// Posts requests one after another under one lock. When it is dropped, the peer is woken for them.
pub struct Poster<'a> {
    queue_pair: &'a Arc<Qp>,
    send: Guard<'a, SendQueue>,
}

impl Qp {
    /// Begins to post.
    #[inline]
    pub fn poster(self: &Arc<Qp>) -> Poster<'_> {
        Poster {
            queue_pair: self,
            send: self.lock_send_unsettled(),
        }
    }
}

impl Poster<'_> {
    /// Posts a request.
    ///
    /// # Errors
    /// EINVAL for a state, opcode or list that is not allowed; ENOMEM when the queue is full. Later
    /// failures are completions.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        let posted = match request.opcode {
            IBV_WR_RDMA_WRITE => self.post_known_write(request),
            _ => self.post_by_lane(request),
        };
        match posted {
            Some(posted) => posted,
            None => self.post_otherwise(request),
        }
    }

    /// Posts a short message to the queue pair's lane. Returns None, without effect, if the request
    /// must take another way ([`Poster::post_otherwise`]).
    #[inline(always)]
    pub fn post_by_lane(&mut self, request: &SendRequest<'_>) -> Option<Result<()>> {
        self.queue_pair.post_by_lane(&mut self.send, request)
    }

    /// Posts an RDMA write of a reliable queue pair to known memory. Returns None, without effect,
    /// if the request must take another way ([`Poster::post_otherwise`]).
    #[inline(always)]
    pub fn post_known_write(&mut self, request: &SendRequest<'_>) -> Option<Result<()>> {
        let send = &mut *self.send;
        if send.is_off_path || send.is_unsettled {
            return None;
        }
        self.queue_pair.post_known_write(send, request)
    }

    /// As [`Poster::post`], for a request that the lane has refused.
    ///
    /// # Errors
    /// Those of [`Poster::post`].
    #[inline]
    pub fn post_otherwise(&mut self, request: &SendRequest<'_>) -> Result<()> {
        self.queue_pair.post_one(&mut self.send, request)
    }

    /// Checks whether `requests` requests can be posted now.
    ///
    /// # Errors
    /// EINVAL for a state that does not allow posting; ENOMEM when they do not fit.
    pub fn check_room(&self, requests: usize) -> Result<()> {
        if sends_in(self.queue_pair.state()) == Sends::Refused {
            return Err(not_ready(self.queue_pair.state()));
        }
        let used = self.send.posted - self.send.retired.position();
        if used + requests as u64 > self.send.capacity {
            return Err(full(self.send.capacity));
        }
        Ok(())
    }

    /// Checks whether [`Poster::post`] accepts a request when there is space.
    ///
    /// # Errors
    /// EINVAL for an opcode or list that is not allowed.
    pub fn check(&self, request: &SendRequest<'_>) -> Result<()> {
        self.queue_pair.check_request(request)
    }
}

impl Drop for Poster<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::mem::take(&mut self.send.owes_wake)
            && let Some(channel) = &self.send.channel
        {
            channel.peer.wake();
        }
    }
}

impl Qp {
    #[inline]
    fn post_one(self: &Arc<Qp>, send: &mut SendQueue, request: &SendRequest<'_>) -> Result<()> {
        if send.is_off_path
            && let Some(posted) = self.post_in_time(send, request)
        {
            return posted;
        }
        send.settle();
        if let Some(posted) = self.post_plain(send, request) {
            return posted;
        }
        self.post_generally(send, request)?;
        if send.is_off_path {
            self.end_posting(send);
        }
        Ok(())
    }

    /// Posts a request of any kind.
    fn post_generally(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Result<()> {
        self.check_request(request)?;
        let state = self.state();
        let sends = sends_in(state);
        if sends == Sends::Refused {
            return Err(not_ready(state));
        }
        if !send.has_room() {
            return Err(full(send.capacity));
        }
        let index = send.posted;
        send.posted += 1;
        let length = request.length();
        let psn = send.next_psn;
        send.next_psn = (psn + send.packets(request.opcode, length)) & 0xff_ffff;
        if send.is_off_path && sends != Sends::Flushed {
            self.begin_passage(send, request, index);
        }
        if sends == Sends::Start && send.pending.is_empty() && send.backoff == Backoff::None {
            let mut progress = RequestProgress::default();
            let outcome = self.execute(send, request, index, psn, &mut progress);
            if outcome == Outcome::Done {
                self.complete_posted(send, request, length, index);
                return Ok(());
            }
            let one = send.pending.append();
            one.fill(request, index, psn);
            one.progress = progress;
            self.note(send, 0, outcome);
            self.finish(send);
            return Ok(());
        }
        send.pending.append().fill(request, index, psn);
        if sends == Sends::Flushed {
            for flushed in send.take_pending() {
                self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
            }
        } else {
            self.transmit(send);
        }
        Ok(())
    }

    /// Completes request `index` of `length` bytes, which was executed while it was posted.
    #[inline]
    fn complete_posted(
        &self,
        send: &SendQueue,
        request: &SendRequest<'_>,
        length: u64,
        index: u64,
    ) {
        if self.is_signalled(request.flags) {
            let (wr_id, opcode) = (request.wr_id, request.opcode);
            self.push_send(send, wr_id, opcode, length, index, IBV_WC_SUCCESS);
        }
    }

    /// Fast paths for plain requests. Returns None, without effect, if the request must take the
    /// general path.
    #[inline]
    fn post_plain(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        if self.state() != IBV_QPS_RTS || send.is_off_path || !send.may_go_on() {
            return None;
        }
        match request.opcode {
            IBV_WR_SEND => self.post_plain_send(send, request),
            // A write would overtake messages in flight, and its completion earlier ones.
            IBV_WR_RDMA_WRITE if send.pending.is_empty() => self.post_plain_write(send, request),
            _ => None,
        }
    }

    /// Posts a write to known memory, if it is plain and nothing is in flight.
    #[inline(always)]
    fn post_known_write(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        if self.state() != IBV_QPS_RTS
            || !send.pending.is_empty()
            || send.backoff != Backoff::None
            || !send.has_room()
        {
            return None;
        }
        let index = send.posted;
        let length = self.write_known(send, request)?.into();
        send.posted += 1;
        send.next_psn = (send.next_psn + send.packets(request.opcode, length)) & 0xff_ffff;
        self.complete_posted(send, request, length, index);
        Some(Ok(()))
    }

    #[inline]
    fn post_plain_write(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        let (index, psn) = (send.posted, send.next_psn);
        let length = self.write_plain(send, request, index, psn)?.into();
        send.posted += 1;
        send.next_psn = (psn + send.packets(request.opcode, length)) & 0xff_ffff;
        self.complete_posted(send, request, length, index);
        Some(Ok(()))
    }

    /// Sends a plain message while all earlier requests are in flight.
    #[inline]
    fn post_plain_send(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        let (index, psn) = (send.posted, send.next_psn);
        let outcome = self.send_plain(send, request, index, psn)?;
        send.posted += 1;
        send.next_psn = (psn + 1) & 0xff_ffff;
        if outcome == Outcome::Sent {
            send.append_sent(request, index, psn);
            self.count_towards_lane(send);
        } else {
            send.pending.append().fill(request, index, psn);
            let position = send.begun;
            self.note(send, position, outcome);
            self.finish(send);
        }
        Some(Ok(()))
    }

    fn check_request(&self, request: &SendRequest<'_>) -> Result<()> {
        if request.sges.len() > self.cap.max_send_sge.max(1) as usize {
            let allowed = self.cap.max_send_sge.max(1);
            return Err(check::too_many_buffers(
                "max_send_sge",
                request.sges.len(),
                allowed,
            ));
        }
        let bit = 1u32.checked_shl(request.opcode).unwrap_or(0);
        let allowed = self.accepted_requests & bit != 0;
        let inline = request.flags & IBV_SEND_INLINE != 0;
        let has_inline = inline && !request.sges.is_empty();
        // Requests with an answer need buffers with keys.
        let carries_inline = !is_answered(request.opcode) || request.opcode == IBV_WR_ATOMIC_WRITE;
        let inline_length: u64 = if has_inline { request.length() } else { 0 };
        if !allowed
            || inline_length > u64::from(self.cap.max_inline_data)
            || (has_inline && !carries_inline)
            || (self.kind == IBV_QPT_UD && request.address.is_none())
            || (request.opcode == IBV_WR_BIND_MW && request.bind.is_none())
        {
            return Err(self.refusal_of(request, allowed, inline_length));
        }
        Ok(())
    }

    /// Returns the error for the condition of [`Qp::check_request`] that a request violates.
    #[cold]
    #[inline(never)]
    fn refusal_of(&self, request: &SendRequest<'_>, allowed: bool, inline_length: u64) -> Errno {
        let opcode = opcode_name(request.opcode);
        let most = self.cap.max_inline_data;
        if !allowed {
            return refused!(
                EINVAL,
                "opcode is {opcode} ({}), which a queue pair of type {} does not support",
                request.opcode,
                self.kind
            );
        }
        if inline_length > u64::from(most) {
            return refused!(
                EINVAL,
                "IBV_SEND_INLINE with {inline_length} bytes, and the queue pair was created for \
                 {most} (cap.max_inline_data)"
            );
        }
        if self.kind == IBV_QPT_UD && request.address.is_none() {
            return refused!(
                EINVAL,
                "wr.ud.ah is NULL: give the address handle of the destination"
            );
        }
        if request.opcode == IBV_WR_BIND_MW && request.bind.is_none() {
            return refused!(EINVAL, "bind_mw.mw is NULL: give the window to bind");
        }
        refused!(
            EINVAL,
            "IBV_SEND_INLINE with {opcode}, whose buffers are written: omit the flag"
        )
    }
}

/// Returns the error for a request in a state that does not allow posting.
#[cold]
#[inline(never)]
fn not_ready(state: ibv_qp_state) -> Errno {
    refused!(
        EINVAL,
        "the queue pair is in {}: move it to RTS with ibv_modify_qp before posting requests",
        state_name(state)
    )
}
