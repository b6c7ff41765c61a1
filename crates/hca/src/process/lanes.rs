//! Progress on the lanes for short messages ([`verbena_hca_shm::lane`]): serves their messages and
//! completes those that the peers have acknowledged.
//!
//! A message that is not plain in every respect is served as the record that it stands for, by the
//! responder for channels. Its answer, if any, goes through the channel.

use crate::cq::Taking;
use crate::process::channels::InboundLane;
use crate::process::lane_ends::{LaneEnd, LaneIn};
use crate::process::outbound_lane::LaneOut;
use crate::process::{Channels, Inbound, Process, QpCache, Serving};
use crate::qp::Qp;
use crate::qp::responder::lane::is_next_served;
use crate::qp::ring_message::{LaneMessage, LaneNotice, Route};
use std::sync::Arc;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_shm::channel::{LANES, Lane};
use verbena_hca_shm::lane;

/// Messages served before other work gets its turn.
const BATCH: u32 = 16;

type State = crate::process::lane_ends::LaneState<Qp>;

impl Process {
    /// Serves and completes messages in some of the lanes.
    #[inline]
    pub(super) fn progress_on_lanes(
        &self,
        channels: &Channels,
        lanes_in: &[InboundLane<Qp>],
        lanes_out: &[Arc<LaneOut<Qp>>],
    ) -> bool {
        let mut worked = false;
        for of in lanes_in {
            worked |= self.serve_lane(of, channels, false);
        }
        worked | self.complete_lanes(lanes_out)
    }

    /// As [`Process::progress_on_lanes`], for one of many polls: it may leave acknowledgements to a
    /// later one, and takes the completions of its queue.
    #[inline(always)]
    pub(super) fn poll_lanes(
        &self,
        channels: &Channels,
        lanes_in: &[InboundLane<Qp>],
        lanes_out: &[Arc<LaneOut<Qp>>],
        taking: &mut Taking<'_, Process>,
    ) -> bool {
        let mut worked = false;
        for of in lanes_in {
            if of.has_message() {
                worked |= self.take_messages(of, channels, taking);
            }
        }
        for one in lanes_out {
            if let Some(head) = one.news_for_poll() {
                self.complete_lane(one, head, Some(taking));
                worked = true;
            }
        }
        worked
    }

    /// Processes all acknowledgements of messages in lanes.
    #[inline]
    pub(super) fn complete_lanes(&self, lanes: &[Arc<LaneOut<Qp>>]) -> bool {
        self.complete_news(lanes, LaneOut::news)
    }

    /// As [`Process::complete_lanes`], but may leave acknowledgements that nothing awaits.
    #[inline]
    pub(super) fn complete_awaited(&self, lanes: &[Arc<LaneOut<Qp>>]) -> bool {
        self.complete_news(lanes, LaneOut::awaited_news)
    }

    #[inline]
    fn complete_news(
        &self,
        lanes: &[Arc<LaneOut<Qp>>],
        news: impl Fn(&LaneOut<Qp>) -> Option<u32>,
    ) -> bool {
        let mut worked = false;
        for one in lanes {
            if let Some(head) = news(one) {
                self.complete_lane(one, head, None);
                worked = true;
            }
        }
        worked
    }

    /// Completes the messages in a lane before the consumer's position `head`.
    #[inline(never)]
    fn complete_lane(
        &self,
        one: &Arc<LaneOut<Qp>>,
        head: u32,
        taking: Option<&mut Taking<'_, Process>>,
    ) {
        // SYNC POINT lane head, lane echo: the consumer answers a message before it acknowledges
        // it. So the acknowledgement is loaded first, and the answers up to it are taken before the
        // messages count as acknowledged.
        if one.via.has_answer() && !planted::is(Bug::LaneAnswer) {
            self.complete_with(&one.via, one.via.completing.lock());
        }
        if let Err(corrupt) = one.queue_pair.lane_acknowledged(one, head, taking) {
            self.cut_off(&one.via.peer, corrupt);
        }
    }

    /// Serves the messages in a lane. `waits` tells whether to wait for a thread that does the same
    /// work.
    #[inline]
    pub(super) fn serve_lane(
        &self,
        of: &InboundLane<Qp>,
        channels: &Channels,
        waits: bool,
    ) -> bool {
        // The look is a hint: it may miss a message while a consumer moves it on.
        if !waits && !of.has_message() {
            return false;
        }
        // The message may answer one in a lane that an older view lacks.
        self.channels.is_newer_than(channels) || self.serve_messages(of, channels, waits)
    }

    /// Serves the messages in a lane for a poll that takes their completions, until it has as many
    /// as it wants.
    #[inline(never)]
    fn take_messages(
        &self,
        of: &InboundLane<Qp>,
        channels: &Channels,
        taking: &mut Taking<'_, Process>,
    ) -> bool {
        if self.channels.is_newer_than(channels) {
            // As in `serve_lane`.
            return true;
        }
        let Some(mut state) = of.lane.state.try_lock() else {
            return false;
        };
        let back = of.back.as_ref();
        let mut served = 0;
        let memory = of.memory.lane();
        while self.is_front_served(
            &of.inbound,
            &of.lane,
            memory,
            &mut state,
            back,
            Some(taking),
        ) {
            served += 1;
            if served == BATCH || taking.is_full() {
                break;
            }
        }
        drop(state);
        if served == 0 {
            return self.serve_messages(of, channels, false);
        }
        of.inbound.peer.wake();
        true
    }

    #[cold]
    #[inline(never)]
    fn serve_messages(&self, of: &InboundLane<Qp>, channels: &Channels, waits: bool) -> bool {
        let state = match waits {
            true => Some(of.lane.state.lock()),
            false => of.lane.state.try_lock(),
        };
        let Some(mut state) = state else {
            return false;
        };
        let back = of.back.as_ref();
        let served = self.serve_plainly(&of.inbound, &of.lane, &mut state, back);
        drop(state);
        if served > 0 {
            of.inbound.peer.wake();
            return true;
        }
        let serving = match waits {
            true => Some(of.inbound.serving.lock()),
            false => of.inbound.serving.try_lock(),
        };
        let Some(mut serving) = serving else {
            return false;
        };
        let mut qp_cache = std::mem::take(&mut serving.qp_cache);
        let (worked, _) =
            self.empty_lane(&of.inbound, &of.lane, &mut serving, &mut qp_cache, channels);
        serving.qp_cache = qp_cache;
        drop(serving);
        if worked {
            of.inbound.peer.wake();
        }
        worked
    }

    /// Serves plain messages at the front. Returns their number.
    fn serve_plainly(
        &self,
        inbound: &Arc<Inbound>,
        one: &LaneIn<Qp>,
        state: &mut State,
        back: Option<&Arc<LaneOut<Qp>>>,
    ) -> u32 {
        let mut served = 0;
        let memory = inbound.channel.lane(one.number);
        while served < BATCH && self.is_front_served(inbound, one, memory, state, back, None) {
            served += 1;
        }
        served
    }

    /// Serves the message at the front, if it is plain. Requests by the lane `back` that it
    /// acknowledges complete before it. Returns whether there was a plain message.
    #[inline(always)]
    fn is_front_served(
        &self,
        inbound: &Arc<Inbound>,
        one: &LaneIn<Qp>,
        memory: Lane<'_>,
        state: &mut State,
        back: Option<&Arc<LaneOut<Qp>>>,
        mut taking: Option<&mut Taking<'_, Process>>,
    ) -> bool {
        let Some(found) = lane::peek(&memory, state.position, state.generation) else {
            return false;
        };
        lane::prefetch_head(&memory);
        self.complete_before(inbound);
        if !state.was_open(self, inbound) {
            return false;
        }
        // SYNC POINT lane echo: of a peer that is connected now, as the open gates show.
        if let Some(back) = back
            && let Some(echo) = LaneMessage::echo(&found.header)
            && u32::from(echo.lane) == back.number
            && back.is_answered(echo.position)
        {
            if !state.is_open() {
                return false;
            }
            self.complete_lane(back, echo.position, taking.as_deref_mut());
        }
        let is_served = state.is_plain_served(self, inbound, memory, &found, taking);
        if is_served {
            one.note_position(state, memory);
        }
        is_served
    }

    /// Serves all messages in a lane, plain or not. Returns whether there were any, and whether all
    /// were served.
    fn empty_lane(
        &self,
        inbound: &Arc<Inbound>,
        one: &LaneIn<Qp>,
        serving: &mut Serving,
        qp_cache: &mut QpCache,
        channels: &Channels,
    ) -> (bool, bool) {
        let mut state = one.state.lock();
        let store = inbound.channel.lane(one.number);
        let mut worked = false;
        // As many as can be there, so that this ends.
        for _ in 0..lane::SLOTS {
            let is_back =
                |out: &&Arc<LaneOut<Qp>>| out.is_back_of(inbound, state.destination.number);
            let back = channels.lanes_out.iter().find(is_back);
            if self.serve_plainly(inbound, one, &mut state, back) > 0 {
                worked = true;
                continue;
            }
            if lane::peek(&store, state.position, state.generation).is_none() {
                return (worked, true);
            }
            self.complete_awaited(&channels.lanes_out);
            if !is_next_served(self, inbound, &mut state, serving, qp_cache) {
                return (worked, false);
            }
            one.note_position(&state, store);
            worked = true;
        }
        let is_empty = lane::peek(&store, state.position, state.generation).is_none();
        (worked, is_empty)
    }

    /// Serves the messages in the lane of a queue pair, which are older than its record at the
    /// front of the channel. Returns whether all were served.
    #[inline]
    pub(super) fn serve_older(
        &self,
        inbound: &Arc<Inbound>,
        serving: &mut Serving,
        qp_cache: &mut QpCache,
        source: u32,
        channels: &Channels,
    ) -> bool {
        if serving.lanes.is_empty() || planted::is(Bug::LaneOrder) {
            return true;
        }
        // SYNC POINT lane order.
        let Some(one) = serving.lanes.get(&source).cloned() else {
            return true;
        };
        self.empty_lane(inbound, &one, serving, qp_cache, channels)
            .1
    }

    /// Serves all messages left in the lanes of a dead peer: they have arrived.
    pub(super) fn serve_last_of_lanes(&self, inbound: &Arc<Inbound>, channels: &Channels) {
        for of in &channels.lanes_in {
            if Arc::ptr_eq(&of.inbound, inbound) {
                let mut rounds = 0..lane::SLOTS;
                while rounds.next().is_some() && self.serve_lane(of, channels, true) {}
            }
        }
    }

    /// Begins to look at a lane, by the notice of its producer, or connects it to another queue
    /// pair. The lane is empty: records of the new queue pair follow the messages of its former
    /// lane, and a number is only given to another queue pair after the lane was emptied.
    pub(crate) fn open_lane(
        &self,
        inbound: &Arc<Inbound>,
        serving: &mut Serving,
        route: &Route,
        notice: LaneNotice,
    ) {
        if notice.number >= LANES {
            inbound.peer.declare_dead();
            return;
        }
        let known = self.channels.snapshot().lanes_in.iter().find_map(|of| {
            let is_it = of.lane.number == notice.number && Arc::ptr_eq(&of.inbound, inbound);
            is_it.then(|| of.clone())
        });
        let queue_pair = self.queue_pairs.find(route.destination.number);
        let receiver = queue_pair.as_deref().map(Qp::as_lane_user);
        let is_shown = known.as_ref().is_some_and(|of| of.receiver == receiver);
        let one = known.map_or_else(
            || {
                Arc::new(LaneIn::new(
                    notice.number,
                    inbound.channel.lane(notice.number),
                ))
            },
            |of| of.lane,
        );
        {
            let mut state = one.state.lock();
            let former = serving.lanes.get(&state.source.number);
            if former.is_some_and(|former| Arc::ptr_eq(former, &one)) {
                serving.lanes.remove(&state.source.number);
            }
            state.source = end_of(route.source.number, route.source.incarnation);
            state.destination = end_of(route.destination.number, route.destination.incarnation);
            state.queue_pair = queue_pair;
            state.generation = notice.generation;
            state.gates = None;
        }
        serving.lanes.insert(route.source.number, one.clone());
        if !is_shown {
            let lane = InboundLane::new(inbound.clone(), one, receiver);
            self.channels.set_inbound_lane(lane);
        }
    }

    /// Lets go of a queue pair that is destroyed: messages to it are refused from now on.
    pub(crate) fn forget_in_lanes(&self, number: u32) {
        for of in &self.channels.snapshot().lanes_in {
            let mut state = of.lane.state.lock();
            if state.destination.number == number {
                state.queue_pair = None;
                state.gates = None;
            }
        }
    }
}

fn end_of(number: u32, incarnation: u32) -> LaneEnd {
    LaneEnd {
        number,
        incarnation,
    }
}
