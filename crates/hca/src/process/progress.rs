//! Serves requests from peers, completes local requests that peers have answered, and wakes queue
//! pairs whose deadline has passed.

use crate::process::QpCache;
use crate::process::channel_ends::InFlight;
use crate::process::moderated;
use crate::process::{Channels, Process};
use crate::process::{Completing, Inbound, Outbound, Serving};
use crate::qp::Qp;
use crate::qp::responder::{self, Progress};
use crate::roce::receive::Packets;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_hca_memory::peer::Peer;
use verbena_hca_os::clock;
use verbena_hca_os::lock::Guard;
use verbena_hca_shm::channel::REQUEST_CELLS;
use verbena_hca_shm::ring::Corrupt;

/// Requests served before other work gets its turn.
const BATCH: usize = 64;

/// The demand on the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing is in flight from or to a peer.
    Nothing,
    /// Requests are in flight and can wait for the application's polling.
    UnderWay,
    /// There is a deadline, or a network.
    Pressing,
}

impl Process {
    /// Serves, completes and wakes once. Returns whether there was anything to do.
    pub fn progress(&self) -> bool {
        self.progress_on(&self.channels.snapshot())
    }

    #[inline]
    pub(super) fn progress_on(&self, channels: &Channels) -> bool {
        let mut worked = false;
        if channels.has_lanes() {
            worked |= self.progress_on_lanes(channels, &channels.lanes_in, &channels.lanes_out);
        }
        worked | self.progress_on_rings(channels, &channels.inbound, &channels.outbound)
    }

    // Inlined into polls, which mostly find nothing; all that they find is done out of line.
    #[inline(always)]
    pub(super) fn progress_on_rings(
        &self,
        channels: &Channels,
        inbound: &[Arc<Inbound>],
        outbound: &[Arc<Outbound>],
    ) -> bool {
        let mut worked = false;
        for inbound in inbound {
            worked |= self.serve(inbound, channels);
        }
        for outbound in outbound {
            worked |= self.complete(outbound);
        }
        worked | Packets::of(self).receive() | self.wake_due()
    }

    /// Completes all requests that peers on this host have acknowledged so far.
    pub(crate) fn complete_acknowledged(&self) {
        let channels = self.channels.snapshot();
        for outbound in &channels.outbound {
            if !outbound.is_idle() {
                self.complete_with(outbound, outbound.completing.lock());
            }
        }
        self.complete_lanes(&channels.lanes_out);
    }

    /// As [`Process::progress`], but waits for a thread that does the same work instead of leaving
    /// the work to it: that thread may have looked before the last request arrived, and be
    /// preempted before it releases the lock. The progress thread's last step before it sleeps.
    pub fn progress_before_sleep(&self) -> bool {
        let channels = self.channels.snapshot();
        let mut worked = false;
        for of in &channels.lanes_in {
            worked |= self.serve_lane(of, &channels, true);
        }
        for inbound in &channels.inbound {
            worked |= self.serve_with(inbound, inbound.serving.lock(), &channels);
        }
        for outbound in &channels.outbound {
            // An answer may remain of a destroyed queue pair's request.
            if !outbound.is_idle() || outbound.has_answer() {
                worked |= self.complete_with(outbound, outbound.completing.lock());
            }
        }
        worked |= self.complete_lanes(&channels.lanes_out);
        // A thread that served a peer's channel before this one may have opened a lane, in which a
        // message waits.
        worked |= self.channels.is_newer_than(&channels);
        worked | Packets::of(self).receive_before_sleep() | self.wake_due()
    }

    /// Returns whether a peer's request, or the answer to a local one, waits for the application's
    /// polling and already did so at the last call.
    pub fn has_left_work(&self) -> bool {
        let channels = self.channels.snapshot();
        let mut left = false;
        // Each call records its observation, so none may be skipped.
        for inbound in &channels.inbound {
            left |= inbound.has_left_request();
        }
        for outbound in &channels.outbound {
            left |= outbound.has_left_answer();
        }
        for of in &channels.lanes_in {
            left |= of.lane.has_left_message();
        }
        for lane in &channels.lanes_out {
            left |= lane.has_left_news();
        }
        left
    }

    /// Does all work that was left, and any that follows at once. Returns whether more is to come:
    /// there was more than one batch, or a request waits that cannot be served before the peer has
    /// made progress.
    pub fn take_left_work(&self) -> bool {
        const ROUNDS: usize = REQUEST_CELLS / BATCH + 1;
        let rounds = (0..ROUNDS).take_while(|_| self.progress()).count();
        let channels = self.channels.snapshot();
        rounds > 1
            || channels.inbound.iter().any(|inbound| inbound.has_request())
            || channels.has_message()
    }

    /// Returns the present demand on the adapter.
    pub fn demand(&self) -> Demand {
        if self.timers.next_loud() != u64::MAX || self.ports.roce().is_some() {
            return Demand::Pressing;
        }
        let channels = self.channels.snapshot();
        let is_under_way = channels.outbound.iter().any(|outbound| !outbound.is_idle())
            || channels.inbound.iter().any(|inbound| inbound.has_request())
            || channels.lanes_out.iter().any(|lane| lane.is_under_way())
            || channels.has_message();
        match is_under_way {
            true => Demand::UnderWay,
            false => Demand::Nothing,
        }
    }

    #[inline]
    fn wake_due(&self) -> bool {
        // Every poll comes here, and a deadline is set as long as a packet is not acknowledged; the
        // clock is read only then.
        let next = self.timers.next();
        next != u64::MAX && next <= clock::now() && self.wake_those_due()
    }

    #[inline(never)]
    fn wake_those_due(&self) -> bool {
        let now = clock::now();
        let mut worked = false;
        while let Some(number) = self.timers.take_quiet(now) {
            if let Some(queue_pair) = self.queue_pairs.find(number) {
                queue_pair.wake();
            }
            worked = true;
        }
        if worked {
            self.follower.is_overtaken.store(true, Ordering::Relaxed);
        }
        if self.timers.next_loud() > now {
            return worked;
        }
        let due = self.timers.take_due(now);
        for number in &due {
            if moderated::is_queue(*number) {
                if let Some(queue) = self.moderated.find(*number) {
                    queue.wake();
                }
            } else if let Some(queue_pair) = self.queue_pairs.find(*number) {
                queue_pair.wake();
            }
        }
        worked | !due.is_empty()
    }

    #[inline]
    fn serve(&self, inbound: &Arc<Inbound>, channels: &Channels) -> bool {
        inbound.has_request() && self.serve_found(inbound, channels)
    }

    /// Serves a peer's requests, unless another thread that serves the same peer does this work.
    #[inline(never)]
    fn serve_found(&self, inbound: &Arc<Inbound>, channels: &Channels) -> bool {
        match inbound.serving.try_lock() {
            Some(serving) => self.serve_with(inbound, serving, channels),
            None => false,
        }
    }

    fn serve_with(
        &self,
        inbound: &Arc<Inbound>,
        mut serving: Guard<'_, Serving>,
        channels: &Channels,
    ) -> bool {
        let serving: &mut Serving = &mut serving;
        let requests = inbound.channel.requests();
        let answered = serving.answers.tail();
        let mut served = 0;
        let mut published = false;
        // Taken out for the batch, because a ready completion borrows from it.
        let mut qp_cache = std::mem::take(&mut serving.qp_cache);
        while served < BATCH {
            match serving.requests.peek(&requests) {
                Ok(Some(record)) => {
                    if self.channels.is_newer_than(channels) {
                        // The record may answer a message in a lane that this view lacks.
                        served += 1;
                        break;
                    }
                    serving.requests.prefetch(&requests);
                    self.complete_before(inbound);
                    if channels.has_lanes() {
                        self.complete_awaited(&channels.lanes_out);
                        let source = record.header.source;
                        if !self.serve_older(inbound, serving, &mut qp_cache, source, channels) {
                            break;
                        }
                    }
                    let position = &mut serving.requests;
                    let acknowledge = || {
                        position.advance(&record);
                        published |= position.publish(&requests);
                    };
                    if responder::serve_plain(self, inbound, &mut qp_cache, &record, acknowledge) {
                        served += 1;
                        continue;
                    }
                    match responder::serve(self, inbound, serving, &mut qp_cache, &record) {
                        Progress::Done(delivered) => {
                            serving.requests.advance(&record);
                            if let Some(delivered) = delivered {
                                // The requester must see the new position before the application
                                // can answer the completion.
                                published |= serving.requests.publish(&requests);
                                delivered.push();
                            }
                        }
                        Progress::Blocked => break,
                    }
                    served += 1;
                }
                Ok(None) => break,
                Err(corrupt) => {
                    self.cut_off(&inbound.peer, corrupt);
                    break;
                }
            }
        }
        serving.qp_cache = qp_cache;
        inbound.note_position(serving);
        published |= serving.requests.publish(&requests);
        // A long read fills the ring of answers before it is fully served: the requester must be
        // woken to empty it.
        let answered = serving.answers.tail() != answered;
        if published || answered {
            inbound.peer.wake();
        }
        served > 0 || answered
    }

    /// Completes the requests that the peer consumed before it sent the request about to be served.
    #[inline(always)]
    pub(super) fn complete_before(&self, inbound: &Arc<Inbound>) {
        match inbound.reverse.get() {
            Some(outbound) if outbound.is_idle() => (),
            reverse => self.complete_reverse(inbound, reverse),
        }
    }

    #[inline(never)]
    fn complete_reverse(&self, inbound: &Inbound, known: Option<&Arc<Outbound>>) {
        let found = match known {
            Some(_) => None,
            None => self.channels.outbound_to(inbound.peer.identity),
        };
        if let Some(found) = &found {
            let _ = inbound.reverse.set(found.clone());
        }
        if let Some(outbound) = known.or(found.as_ref())
            && !outbound.is_idle()
        {
            self.complete_with(outbound, outbound.completing.lock());
        }
    }

    /// Serves all requests left in the ring of a dead peer: they have arrived.
    fn serve_the_last(&self, inbound: &Arc<Inbound>) {
        const BATCHES: usize = REQUEST_CELLS / BATCH + 1;
        for _ in 0..BATCHES {
            // Served records may open lanes.
            let channels = self.channels.snapshot();
            let serving = inbound.serving.lock();
            if !inbound.has_request() || !self.serve_with(inbound, serving, &channels) {
                break;
            }
        }
        self.serve_last_of_lanes(inbound, &self.channels.snapshot());
    }

    #[inline]
    fn complete(&self, outbound: &Arc<Outbound>) -> bool {
        !outbound.is_idle() && self.complete_in_flight(outbound)
    }

    /// Completes requests in flight, unless another thread does.
    #[inline(never)]
    fn complete_in_flight(&self, outbound: &Arc<Outbound>) -> bool {
        match outbound.completing.try_lock() {
            Some(completing) => self.complete_with(outbound, completing),
            None => false,
        }
    }

    pub(super) fn complete_with(
        &self,
        outbound: &Arc<Outbound>,
        mut completing: Guard<'_, Completing>,
    ) -> bool {
        let requests = outbound.channel.requests();
        // SYNC POINT answers: the responder answers a request before its position passes it. So the
        // position is loaded first, and the answers up to it are seen below.
        let head = verbena_hca_shm::ring::Store::head(&requests).load(Ordering::Acquire);
        match self.complete_up_to(outbound, &mut completing, head) {
            Ok(worked) => worked,
            Err(corrupt) => {
                self.cut_off(&outbound.peer, corrupt);
                false
            }
        }
    }

    #[inline]
    fn complete_up_to(
        &self,
        outbound: &Arc<Outbound>,
        completing: &mut Completing,
        head: u64,
    ) -> Result<bool, Corrupt> {
        let mut worked = false;
        if completing.answers.has_record(&outbound.channel.answers()) {
            worked = self.take_answers(outbound, completing)?;
        }
        if !outbound.has_news(head) {
            return Ok(worked);
        }
        outbound.take_acknowledged(head, completing)?;
        for one in &completing.done {
            if let Some(queue_pair) = self.sender(&mut completing.qp_cache, one) {
                queue_pair.acknowledged(one.index, one.epoch);
            }
        }
        completing.done.clear();
        outbound.note_complete(head);
        if !completing.starving.is_empty() {
            for queue_pair in std::mem::take(&mut completing.starving) {
                queue_pair.wake();
            }
        }
        Ok(true)
    }

    fn take_answers(
        &self,
        outbound: &Arc<Outbound>,
        completing: &mut Completing,
    ) -> Result<bool, Corrupt> {
        let answers = outbound.channel.answers();
        let mut worked = false;
        while let Some(record) = completing.answers.peek(&answers)? {
            worked = true;
            if let Some(queue_pair) = self.queue_pairs.find(record.header.destination) {
                queue_pair.answered(outbound, &record);
            }
            completing.answers.advance(&record);
        }
        outbound.note_position(completing);
        if completing.answers.publish(&answers) {
            outbound.peer.wake();
        }
        Ok(worked)
    }

    /// Returns the queue pair of a request, if it is still the incarnation that sent it.
    #[inline(always)]
    fn sender<'a>(&self, qp_cache: &'a mut QpCache, one: &InFlight) -> Option<&'a Arc<Qp>> {
        let queue_pair = qp_cache.find(&self.queue_pairs, one.number)?;
        (queue_pair.incarnation() == one.incarnation).then_some(queue_pair)
    }

    /// Treats a peer that breaks the protocol as dead.
    pub(super) fn cut_off(&self, peer: &Peer, _reason: Corrupt) {
        peer.declare_dead();
        self.activity.ring();
    }

    /// Flushes all requests that a dead peer will not complete, and forgets the peer.
    pub(crate) fn remove_dead_peers(&self) {
        // The set of dead peers is fixed here: a peer that dies later is handled and forgotten the
        // next time.
        let mut dead = to_dead_peers(&self.channels.snapshot());
        if dead.most() == 0 {
            return;
        }
        for inbound in &dead.inbound {
            self.serve_the_last(inbound);
        }
        for outbound in &dead.outbound {
            // Answers that the peer still gave count. The lock is waited for, because a thread that
            // completes may have looked before the last answer.
            self.complete_with(outbound, outbound.completing.lock());
            let mut completing = outbound.completing.lock();
            let (in_flight, starving) = outbound.take_all();
            for lost in in_flight {
                if let Some(queue_pair) = self.sender(&mut completing.qp_cache, &lost) {
                    queue_pair.peer_died(lost.index, lost.epoch);
                }
            }
            for queue_pair in starving {
                queue_pair.wake();
            }
        }
        let is_of_dead = |peer: &Peer| peers_of(&dead).any(|one| std::ptr::eq(one, peer));
        let with_lanes = self.channels.snapshot().of_peers(is_of_dead);
        self.complete_lanes(&with_lanes.lanes_out);
        for lane in &with_lanes.lanes_out {
            lane.queue_pair.lane_lost(lane);
        }
        dead.lanes_out = with_lanes.lanes_out;
        dead.lanes_in = with_lanes.lanes_in;
        self.channels.remove(&dead);
        self.moderated.for_each(|queue| queue.forget_channels());
        for inbound in &dead.inbound {
            let mut states = self
                .xrc_message_states
                .lock()
                .unwrap_or_else(|e| e.into_inner());
            states.forget(inbound.peer.identity);
        }
        if let Some(member) = self.membership.get() {
            for peer in peers_of(&dead) {
                member.registry.reclaim(peer.identity);
            }
        }
    }
}

/// Returns the channels to and from dead peers, as they are now.
fn to_dead_peers(channels: &Channels) -> Channels {
    channels.of_peers(Peer::is_dead)
}

/// Returns the peers of channels.
fn peers_of(channels: &Channels) -> impl Iterator<Item = &Peer> {
    let outbound = channels.outbound.iter().map(|one| &*one.peer);
    outbound.chain(channels.inbound.iter().map(|one| &*one.peer))
}
