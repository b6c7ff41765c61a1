//! A completion queue's view of the channels, for its polls.
//!
//! Polls look at the lanes whose messages, or acknowledgements, complete in the queue. Threads that
//! poll queues with queue pairs of their own so share no written cache line. The other lanes are
//! left to those that poll their queues, unless a message is still there at the second look
//! ([`SeenChannels::others`]).

use crate::process::channels::{ChannelSet, Channels, InboundLane};
use crate::process::outbound_lane::{LaneOut, LaneUser};
use std::sync::Arc;

/// Polls that found nothing in the queue's lanes from one look at other lanes to the next.
const OTHERS_EVERY: u32 = 64;

/// A cached view of the channels for frequent looks, which saves counting a reference each time.
pub struct SeenChannels<Q> {
    pub(crate) channels: Arc<Channels<Q>>,
    /// The lanes of the queue.
    inward: Vec<InboundLane<Q>>,
    outward: Vec<Arc<LaneOut<Q>>>,
    /// Work seen in the others, if there are any.
    others: Option<LeftWork>,
    /// Length of the longest list of channels or lanes to look at.
    pub(crate) most: usize,
    /// Index at which the next partial look begins.
    turn: usize,
    /// Number of queue armings at the last look at all channels.
    pub(crate) armings: usize,
    /// Looks in a row during which the progress thread was working.
    pub(crate) looks: u32,
    /// Looks in a row that found enough in the lanes.
    pub(crate) satisfied: u32,
    /// Looks since the last one at other lanes.
    since_others: u32,
}

/// Positions at which the last look found work, of all lanes.
struct LeftWork {
    inward: Vec<Option<u32>>,
    outward: Vec<Option<u32>>,
}

impl<Q> Default for SeenChannels<Q> {
    fn default() -> SeenChannels<Q> {
        SeenChannels {
            channels: Arc::default(),
            inward: Vec::new(),
            outward: Vec::new(),
            others: None,
            most: 0,
            turn: 0,
            armings: 0,
            looks: 0,
            satisfied: 0,
            since_others: 0,
        }
    }
}

impl<Q> SeenChannels<Q> {
    /// Brings the view of the queue with a number up to date; normally one look finds nothing new.
    #[inline]
    pub(super) fn look(&mut self, current: &ChannelSet<Q>, number: impl FnOnce() -> u32) {
        if current.is_newer_than(&self.channels) {
            self.update(current.snapshot(), number());
        }
    }

    #[cold]
    fn update(&mut self, channels: Arc<Channels<Q>>, queue: u32) {
        let receives = |user: Option<LaneUser>| user.is_none_or(|one| one.receive_queue == queue);
        let inward = channels.lanes_in.iter().filter(|of| receives(of.receiver));
        let outward = channels.lanes_out.iter();
        let outward = outward.filter(|one| one.user.send_queue == queue);
        (self.inward, self.outward) = (inward.cloned().collect(), outward.cloned().collect());
        let (all_in, all_out) = (channels.lanes_in.len(), channels.lanes_out.len());
        let (inward, outward) = (self.inward.len(), self.outward.len());
        let rings = channels.inbound.len().max(channels.outbound.len());
        self.most = rings.max(inward).max(outward);
        self.others = ((inward, outward) != (all_in, all_out)).then(|| LeftWork {
            inward: vec![None; all_in],
            outward: vec![None; all_out],
        });
        self.channels = channels;
    }

    /// Returns the lanes of the queue.
    #[inline]
    pub(super) fn lanes(&self) -> (&[InboundLane<Q>], &[Arc<LaneOut<Q>>]) {
        (&self.inward, &self.outward)
    }

    /// Returns whether there is a message in the lanes of the queue, by one look.
    #[inline(always)]
    pub(super) fn has_message(&self) -> bool {
        for of in &self.inward {
            if of.has_message() {
                return true;
            }
        }
        false
    }

    /// Returns whether a poll has more to do in a lane of the queue than to look for messages.
    #[inline(always)]
    pub(super) fn is_awaiting(&self) -> bool {
        for one in &self.outward {
            if one.is_awaiting() {
                return true;
            }
        }
        false
    }

    /// Returns whether the next poll that finds nothing looks at other lanes.
    #[inline(always)]
    pub(super) fn is_turn_of_others_next(&self) -> bool {
        self.others.is_some() && self.since_others.wrapping_add(1) >= OTHERS_EVERY
    }

    /// Counts a poll that found nothing.
    #[inline(always)]
    pub(super) fn note_quiet(&mut self) {
        self.since_others = self.since_others.wrapping_add(1);
        self.satisfied = 0;
    }

    /// Returns the index at which a partial look at `looks` channels or lanes begins, and moves it.
    pub(super) fn take_turn(&mut self, looks: usize) -> usize {
        let turn = self.turn;
        self.turn = match turn + looks < self.most {
            true => turn + looks,
            false => 0,
        };
        turn
    }

    /// Returns whether it is time to look at other lanes.
    #[inline]
    pub(super) fn is_turn_of_others(&mut self) -> bool {
        if self.others.is_none() {
            return false;
        }
        self.since_others = self.since_others.wrapping_add(1);
        if self.since_others < OTHERS_EVERY {
            return false;
        }
        self.since_others = 0;
        true
    }

    /// Returns the lanes in which work is found that the last call has found, too.
    #[cold]
    pub(super) fn others(&mut self) -> (Vec<InboundLane<Q>>, Vec<Arc<LaneOut<Q>>>) {
        let Some(last) = &mut self.others else {
            return (Vec::new(), Vec::new());
        };
        let is_left = |left: &mut Option<u32>, found: Option<u32>| {
            std::mem::replace(left, found) == found && found.is_some()
        };
        let inward = self.channels.lanes_in.iter().zip(&mut last.inward);
        let outward = self.channels.lanes_out.iter().zip(&mut last.outward);
        (
            inward
                .filter_map(|(of, left)| {
                    let found = of.lane.next_message();
                    is_left(left, found).then(|| of.clone())
                })
                .collect(),
            outward
                .filter_map(|(one, left)| is_left(left, one.first_news()).then(|| one.clone()))
                .collect(),
        )
    }
}
