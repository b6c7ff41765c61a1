//! Short messages by a lane ([`verbena_hca_shm::lane`]): posted and completed without a pending
//! work request each.
//!
//! A lane is *live* while every request in flight is a message in it. Only then messages are posted
//! to it, and `pending` is empty. Any other call or event of the queue pair takes the send queue's
//! lock by [`Qp::lock_send`], which first turns the messages in flight into pending requests
//! ([`SendQueue::settle`]): from there on, all is as for messages in the channel. So this module
//! decides nothing about order, retries, flushes or failures.

use super::full::full;
use super::lane_state::{InLane, SendLane};
use super::request::RequestStage;
use super::{Backoff, SendQueue, SendRequest};
use crate::capture;
use crate::cq::Taking;
use crate::lanes;
use crate::observed;
use crate::process::lane_ends::{FreeLane, OpenGate};
use crate::process::outbound_lane::LaneOut;
use crate::process::{Outbound, Process};
use crate::qp::Qp;
use crate::qp::inline_data::gather_inline;
use crate::qp::ring_message::{LaneMessage, LaneNotice};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_os::copy;
use verbena_hca_os::errno::Result;
use verbena_hca_shm::context_table::EndOfOwner;
use verbena_hca_shm::lane::{self, SLOTS};
use verbena_hca_shm::ring::Corrupt;

const FLAGS: u32 = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED;

impl SendQueue {
    /// Turns requests that are in a lane, or timed, into pending ones.
    #[inline]
    pub(in crate::qp) fn settle(&mut self) {
        if self.is_unsettled {
            self.settle_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_all(&mut self) {
        self.is_unsettled = false;
        self.settle_lane();
        self.settle_timed();
    }

    /// Turns messages in the lane into pending requests. While there are any, the lane takes no
    /// others.
    fn settle_lane(&mut self) {
        let Some(mut lane) = self.send_lane.take_if(|lane| lane.is_live) else {
            return;
        };
        lane.is_live = false;
        lane.retire_taken();
        lane.out.flight.await_until(lane.tail);
        let mut position = lane.acknowledged;
        while position != lane.tail {
            let message = *lane.at(position);
            let store = lane.out.store();
            let skipped = LaneMessage::prefix(message.has_immediate);
            let buffer = ibv_sge {
                // The responder may write there, too, but it is the one that the bytes are for.
                addr: lane::sent_payload(&store, position) as u64 + skipped as u64,
                length: message.length.into(),
                lkey: 0,
            };
            let request = SendRequest {
                wr_id: message.wr_id,
                opcode: opcode_of(message.has_immediate),
                flags: u32::from(message.flags) | IBV_SEND_INLINE,
                immediate: message.immediate,
                sges: &[buffer],
                ..SendRequest::default()
            };
            let passed = position.wrapping_sub(lane.first);
            let psn = lane.first_psn.wrapping_add(passed) & 0xff_ffff;
            let one = self.pending.append();
            one.fill(&request, lane.index(position), psn);
            one.epoch = lane.epoch;
            one.is_started = true;
            one.stage = RequestStage::Sent;
            self.begun += 1;
            self.sent += 1;
            position = position.wrapping_add(1);
        }
        self.send_lane = Some(lane);
    }

    /// Returns whether the lane takes a message now.
    #[inline]
    fn has_lane(&self) -> bool {
        self.send_lane.as_deref().is_some_and(SendLane::is_free)
    }

    fn has_live_lane(&self) -> bool {
        self.send_lane.as_deref().is_some_and(|lane| lane.is_live)
    }
}

fn opcode_of(has_immediate: bool) -> ibv_wr_opcode {
    match has_immediate {
        true => IBV_WR_SEND_WITH_IMM,
        false => IBV_WR_SEND,
    }
}

/// Counts the packet of the lane's next message for the fabric. Returns false, without effect, if
/// something else observes the message, too.
#[inline(always)]
fn is_counted(send: &mut SendQueue, length: u32, has_immediate: bool) -> bool {
    let index = send.posted;
    // Immediate data is a further word.
    let bytes = u64::from(length.next_multiple_of(4)) + u64::from(has_immediate) * 4;
    match &mut send.counting {
        Some(counting) if !capture::is_on() => counting.count_short(bytes, index),
        _ => false,
    }
}

impl Qp {
    /// Posts a short message to the lane. Returns None, without effect, if the request must take
    /// another way. Inlined, so that the request stays in registers.
    #[inline(always)]
    pub(super) fn post_by_lane(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Option<Result<()>> {
        let has_immediate = request.opcode == IBV_WR_SEND_WITH_IMM;
        let length = self.lane_length(request, has_immediate)?;
        if !send.has_room() {
            return send.has_live_lane().then(|| Err(full(send.capacity)));
        }
        if self.process.lanes.chance(8) || !(send.has_lane() || self.make_lane_free(send)) {
            return None;
        }
        if observed::is_any()
            && !is_counted(send, length, has_immediate)
            && !self.may_be_fast_by_lane(send, *request)
        {
            return None;
        }
        let lane = send.send_lane.as_deref_mut()?;
        // SYNC POINT gate: the responder was found ready when the lane became live.
        let is_open = lane.gate.is_unchanged() || planted::is(Bug::LaneGate);
        if !is_open || lane.end.has_come() {
            return None;
        }
        let section = (!request.is_inline()).then(|| lane.out.via.section(0));
        let first = request.sges.first()?;
        let source = match &section {
            Some(section) => self.plain_source(section, first, &mut send.known.source)?,
            None => first.addr as *const u8,
        };
        let header = LaneMessage {
            length,
            immediate: has_immediate.then_some(request.immediate),
            solicited: request.is_solicited(),
            psn: send.next_psn,
        };
        let mut echo = self.received_by_lane.last(lane.incarnations.1);
        if planted::is(Bug::LaneEcho)
            && let Some(echo) = &mut echo
        {
            echo.position = echo.position.wrapping_add(SLOTS);
        }
        let (position, tail) = (lane.tail, lane.tail.wrapping_add(1));
        let flags = match self.is_signalled(request.flags) {
            true => {
                lane.out.flight.await_until(tail);
                request.flags | IBV_SEND_SIGNALED
            }
            false => request.flags,
        };
        lane.out.flight.announce(tail);
        let fill = |target: *mut u8| {
            // SAFETY: a slot has space for the immediate data and `length` bytes more, the sum of
            // the buffers, as `lane_length` has checked. A granted piece of `length` bytes lies
            // inside the arena as long as the section is open; the application keeps inline data
            // valid while it posts.
            unsafe {
                let target = header.emit_immediate(target);
                match request.sges.len() {
                    1 => copy::copy(source, target, length as usize),
                    _ => gather_inline(request.sges, 0, target, length as usize),
                }
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = lane::publish(
            &lane.out.store(),
            position,
            header.emit(lane.generation, echo),
            fill,
        );
        drop(section);
        lane.in_flight[(position % SLOTS) as usize] = InLane {
            wr_id: request.wr_id,
            immediate: request.immediate,
            length: length as u8,
            flags: flags as u8,
            has_immediate,
        };
        lane.tail = tail;
        send.posted += 1;
        send.next_psn = (send.next_psn + 1) & 0xff_ffff;
        send.owes_wake = !planted::is(Bug::LaneWake);
        self.process.counters.shard().count_by_lane(length.into());
        Some(Ok(()))
    }

    /// Opens or enters the lane, or takes acknowledgements if it is full. Returns whether it takes
    /// a message now.
    #[cold]
    #[inline(never)]
    fn make_lane_free(self: &Arc<Qp>, send: &mut SendQueue) -> bool {
        if send.messages_to_lane == 0 {
            self.open_lane(send);
        }
        if send.send_lane.is_none() {
            return false;
        }
        if !(send.has_live_lane() || self.enter_lane(send)) {
            return false;
        }
        if !send.has_lane() {
            self.take_lane_acknowledgements(send);
        }
        send.has_lane()
    }

    /// As [`Qp::may_be_fast`], for a request that lies in registers.
    #[cold]
    #[inline(never)]
    fn may_be_fast_by_lane(&self, send: &mut SendQueue, request: SendRequest<'_>) -> bool {
        self.may_be_fast(send, &request)
    }

    /// Returns the bytes of a request if the lane can carry it: some bytes, inline or in one
    /// buffer, without flags that order it after others.
    #[inline(always)]
    fn lane_length(&self, request: &SendRequest<'_>, has_immediate: bool) -> Option<u32> {
        if request.opcode != IBV_WR_SEND && !has_immediate {
            return None;
        }
        let (buffers, is_inline) = (request.sges.len(), request.is_inline());
        if buffers != 1 && (!is_inline || buffers > self.cap.max_send_sge as usize) {
            return None;
        }
        let space = lane::PAYLOAD - LaneMessage::prefix(has_immediate);
        let most = match is_inline {
            true => (self.cap.max_inline_data as usize).min(space),
            false => space,
        };
        let length = request.length();
        let fits = request.flags & !FLAGS == 0 && length != 0 && length <= most as u64;
        fits.then_some(length as u32)
    }

    /// Makes the lane live, if nothing is in flight, and the two queue pairs are in the states, and
    /// the incarnations, that the consumer was notified of.
    #[cold]
    #[inline(never)]
    fn enter_lane(&self, send: &mut SendQueue) -> bool {
        let (Some(lane), Some(channel)) = (&send.send_lane, &send.channel) else {
            return false;
        };
        if !send.pending.is_empty() || send.backoff != Backoff::None || !lane.is_empty() {
            return false;
        }
        if !Arc::ptr_eq(channel, &lane.out.via)
            || Some(lane.incarnations) != self.lane_incarnations(send)
        {
            // A notice follows after the next messages.
            send.messages_to_lane = send.messages_to_lane.min(self.process.lanes.threshold());
            return false;
        }
        // SYNC POINT gate: loaded before the words that are checked.
        let gate = OpenGate::of(&channel.peer.contexts, send.destination);
        let incarnation = gate.record().incarnation.load(Ordering::Relaxed);
        if self.state() != IBV_QPS_RTS
            || !self.is_ready_for_lane(send, channel)
            || Some(incarnation) != send.responder
        {
            return false;
        }
        let (first_index, first_psn, epoch) = (send.posted, send.next_psn, send.epoch);
        if let Some(lane) = &mut send.send_lane {
            (lane.is_live, lane.gate, lane.first) = (true, gate, lane.tail);
            (lane.first_index, lane.first_psn) = (first_index, first_psn);
            lane.epoch = epoch;
        }
        send.is_unsettled = true;
        true
    }

    fn lane_incarnations(&self, send: &SendQueue) -> Option<(u32, u32)> {
        Some((self.incarnation(), send.responder?))
    }

    /// Returns whether no rule, route or state of this queue pair or its peer keeps messages out of
    /// a lane: the one place that decides it.
    fn is_ready_for_lane(&self, send: &SendQueue, channel: &Arc<Outbound>) -> bool {
        let record = channel.peer.contexts.queue_pair(send.destination);
        self.kind == IBV_QPT_RC
            && !send.is_off_path
            && send.packets.is_none()
            && !capture::is_on()
            && !channel.peer.is_dead()
            && self.is_answered_by(&channel.peer, record)
    }

    /// Counts a plain message in the channel: after some, messages go by a lane.
    #[inline]
    pub(super) fn count_towards_lane(self: &Arc<Qp>, send: &mut SendQueue) {
        if send.messages_to_lane == u32::MAX {
            return;
        }
        send.messages_to_lane = send.messages_to_lane.saturating_sub(1);
        if send.messages_to_lane == 0 {
            self.open_lane(send);
        }
    }

    /// Takes a lane, or keeps the one that there is, and notifies the consumer.
    #[cold]
    #[inline(never)]
    fn open_lane(self: &Arc<Qp>, send: &mut SendQueue) {
        send.messages_to_lane = self.process.lanes.threshold();
        if self.process.lanes == lanes::Mode::Off {
            return;
        }
        let Some(channel) = send.channel.clone() else {
            send.channel = self.process.outbound_to_number(send.destination);
            return;
        };
        if !self.is_ready_for_lane(send, &channel) {
            return;
        }
        if send.responder.is_none() && send.pending.is_empty() {
            // The first message of the connection.
            let _ = self.responder(send, &channel.peer, send.next_psn);
        }
        let Some(incarnations) = self.lane_incarnations(send) else {
            return;
        };
        let is_its = |lane: &SendLane<Qp>| Arc::ptr_eq(&lane.out.via, &channel);
        if !send.send_lane.as_deref().is_some_and(is_its) || self.process.lanes.chance(4) {
            // Requests in flight in the old lane still await its acknowledgements.
            let is_empty = |lane: &SendLane<Qp>| lane.is_empty() || send.pending.is_empty();
            if !send.send_lane.as_deref().is_none_or(is_empty) {
                return;
            }
            self.close_lane(send);
            let Some(free) = channel.lanes.take(&channel.channel) else {
                return;
            };
            let position = free.tail;
            let (via, user) = (channel.clone(), self.as_lane_user());
            let out = LaneOut::new(via, free.number, position, self.clone(), user);
            let out = Arc::new(out);
            self.process.channels.add_outbound_lane(out.clone());
            send.send_lane = Some(Box::new(SendLane {
                out,
                end: EndOfOwner::of(&channel.peer.contexts),
                incarnations,
                generation: free.generation,
                is_live: false,
                gate: OpenGate::of(&channel.peer.contexts, send.destination),
                tail: position,
                acknowledged: position,
                first: position,
                first_index: 0,
                first_psn: 0,
                epoch: 0,
                in_flight: [InLane::default(); SLOTS as usize],
            }));
        }
        let Some(lane) = send.send_lane.as_deref_mut() else {
            return;
        };
        lane.generation = lane.generation.wrapping_add(1);
        let notice = LaneNotice {
            number: lane.out.number,
            generation: lane.generation,
        };
        let header = notice.emit(&self.route(send, send.next_psn));
        if channel.push_unawaited(header, 0, |_| Ok(())) {
            if let Some(lane) = &mut send.send_lane {
                lane.incarnations = incarnations;
            }
            send.messages_to_lane = u32::MAX;
            send.owes_wake = true;
        } else {
            self.close_lane(send);
        }
    }

    /// Releases the lane. Nothing in flight needs its acknowledgements.
    pub(in crate::qp) fn close_lane(&self, send: &mut SendQueue) {
        send.settle();
        if let Some(lane) = send.send_lane.take() {
            self.process.channels.remove_outbound_lane(&lane.out);
            lane.out.via.lanes.release(FreeLane {
                number: lane.out.number,
                tail: lane.tail,
                generation: lane.generation,
            });
        }
    }

    /// Handles acknowledgements of messages in the lane: those before the consumer's position
    /// `head`. The answers that precede it in the channel were handled.
    ///
    /// # Errors
    /// [`Corrupt`] when `head` is past the last message: the consumer's position is invalid.
    pub(crate) fn lane_acknowledged(
        self: &Arc<Qp>,
        out: &Arc<LaneOut<Qp>>,
        head: u32,
        taking: Option<&mut Taking<'_, Process>>,
    ) -> std::result::Result<(), Corrupt> {
        let mut send = self.lock_send_unsettled();
        match send.send_lane.as_deref() {
            Some(lane) if Arc::ptr_eq(&lane.out, out) => (),
            _ => return Ok(()),
        }
        if capture::is_on() || self.process.lanes.chance(8) {
            send.settle();
        }
        self.acknowledge_lane(&mut send, head, taking)
    }

    /// As [`Qp::lane_acknowledged`], for a thread that posts. Does nothing if there are answers:
    /// these come first.
    #[cold]
    #[inline(never)]
    fn take_lane_acknowledgements(self: &Arc<Qp>, send: &mut SendQueue) {
        let Some(lane) = send.send_lane.as_deref_mut() else {
            return;
        };
        lane.retire_left();
        if lane.is_free() {
            return;
        }
        // SYNC POINT lane head: loaded first.
        let head = lane::released(&lane.out.store());
        if !lane.out.via.has_answer() {
            // A wrong position is found again by a thread that can cut off the peer.
            let _ = self.acknowledge_lane(send, head, None);
        }
    }

    #[inline(always)]
    fn acknowledge_lane(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        head: u32,
        mut taking: Option<&mut Taking<'_, Process>>,
    ) -> std::result::Result<(), Corrupt> {
        let Some(lane) = send.send_lane.as_deref_mut() else {
            return Ok(());
        };
        let ahead = head.wrapping_sub(lane.acknowledged);
        if ahead.cast_signed() <= 0 {
            // Another thread has handled a later position.
            return Ok(());
        }
        if ahead > lane.tail.wrapping_sub(lane.acknowledged) {
            return Err(Corrupt);
        }
        if !lane.is_live {
            self.acknowledge_pending(send, head);
            return Ok(());
        }
        // The messages of a live lane are the oldest requests in flight.
        send.rnr_retries.reload();
        send.unanswered_since = None;
        let mut position = std::mem::replace(&mut lane.acknowledged, head);
        if !lane.out.flight.is_awaited() {
            position = head;
        }
        while position != head {
            let message = lane.at(position);
            if message.is_signalled() {
                let (length, index) = (message.length.into(), lane.index(position));
                self.push_sent(
                    &send.retired,
                    message.wr_id,
                    IBV_WR_SEND,
                    length,
                    index,
                    IBV_WC_SUCCESS,
                    taking.as_deref_mut(),
                );
            }
            position = position.wrapping_add(1);
        }
        lane.out.flight.note_acknowledged(head);
        Ok(())
    }

    /// Handles acknowledgements of messages that are pending requests by now.
    #[cold]
    #[inline(never)]
    fn acknowledge_pending(self: &Arc<Qp>, send: &mut SendQueue, head: u32) {
        let Some(lane) = send.send_lane.as_deref_mut() else {
            return;
        };
        let from = std::mem::replace(&mut lane.acknowledged, head);
        let (out, epoch) = (lane.out.clone(), lane.epoch);
        let requests: Vec<u64> = (0..head.wrapping_sub(from))
            .map(|passed| lane.index(from.wrapping_add(passed)))
            .collect();
        for index in requests {
            self.acknowledge(send, index, epoch);
        }
        out.flight.note_acknowledged(head);
    }

    /// Handles the death of the peer: messages in flight time out like any other request without an
    /// answer.
    pub(crate) fn lane_lost(self: &Arc<Qp>, out: &Arc<LaneOut<Qp>>) {
        let mut lost = Vec::new();
        {
            let mut send = self.lock_send();
            let Some(lane) = send.send_lane.take_if(|lane| Arc::ptr_eq(&lane.out, out)) else {
                return;
            };
            let mut position = lane.acknowledged;
            while position != lane.tail {
                lost.push((lane.index(position), lane.epoch));
                position = position.wrapping_add(1);
            }
            out.flight.note_acknowledged(lane.tail);
            send.messages_to_lane = self.process.lanes.threshold();
        }
        for (index, epoch) in lost {
            self.peer_died(index, epoch);
        }
    }
}
