//! A completion queue's view of the channels, for its polls.
//!
//! Polls look at the lanes of the queue pairs that complete in the queue. Threads that poll queues
//! with queue pairs of their own so share no written cache line. The other lanes are left to those
//! that poll their queues, unless a message is still there at the second look
//! ([`SeenChannels::others`]).

use crate::process::channels::{ChannelSet, Channels, InboundLane};
use crate::process::outbound_lane::{LaneOut, LaneUser};
use std::sync::Arc;

/// Polls that found nothing in the queue's lanes from one look at other lanes to the next.
const OTHERS_EVERY: u32 = 64;

/// A cached view of the channels for frequent looks, which saves counting a reference each time.
pub struct SeenChannels<Q> {
    pub(crate) channels: Arc<Channels<Q>>,
    /// The lanes of the queue, unless all are.
    some: Option<SomeLanes<Q>>,
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

struct SomeLanes<Q> {
    inward: Vec<InboundLane<Q>>,
    outward: Vec<Arc<LaneOut<Q>>>,
    /// Positions at which the last look found work, of all lanes.
    left_in: Vec<Option<u32>>,
    left_out: Vec<Option<u32>>,
}

impl<Q> Default for SeenChannels<Q> {
    fn default() -> SeenChannels<Q> {
        SeenChannels {
            channels: Arc::default(),
            some: None,
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
        let is_its = |user: Option<LaneUser>| user.is_none_or(|one| one.queues.contains(&queue));
        let inward = channels.lanes_in.iter().filter(|of| is_its(of.receiver));
        let outward = channels.lanes_out.iter();
        let some = SomeLanes {
            inward: inward.cloned().collect(),
            outward: outward
                .filter(|one| is_its(Some(one.user)))
                .cloned()
                .collect(),
            left_in: vec![None; channels.lanes_in.len()],
            left_out: vec![None; channels.lanes_out.len()],
        };
        let (inward, outward) = (some.inward.len(), some.outward.len());
        let rings = channels.inbound.len().max(channels.outbound.len());
        self.most = rings.max(inward).max(outward);
        let is_all = inward == channels.lanes_in.len() && outward == channels.lanes_out.len();
        self.some = (!is_all).then_some(some);
        self.channels = channels;
    }

    /// Returns the lanes of the queue.
    #[inline]
    pub(super) fn lanes(&self) -> (&[InboundLane<Q>], &[Arc<LaneOut<Q>>]) {
        match &self.some {
            None => (&self.channels.lanes_in, &self.channels.lanes_out),
            Some(some) => (&some.inward, &some.outward),
        }
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
        if self.some.is_none() {
            return false;
        }
        self.since_others += 1;
        if self.since_others < OTHERS_EVERY {
            return false;
        }
        self.since_others = 0;
        true
    }

    /// Returns the lanes in which work is found that the last call has found, too.
    #[cold]
    pub(super) fn others(&mut self) -> (Vec<InboundLane<Q>>, Vec<Arc<LaneOut<Q>>>) {
        let Some(some) = &mut self.some else {
            return (Vec::new(), Vec::new());
        };
        let is_left = |left: &mut Option<u32>, found: Option<u32>| {
            std::mem::replace(left, found) == found && found.is_some()
        };
        let inward = self.channels.lanes_in.iter().zip(&mut some.left_in);
        let outward = self.channels.lanes_out.iter().zip(&mut some.left_out);
        (
            inward
                .filter_map(|(of, left)| {
                    let found = of.lane.next_message(&of.inbound.channel);
                    is_left(left, found).then(|| of.clone())
                })
                .collect(),
            outward
                .filter_map(|(one, left)| is_left(left, one.first_news()).then(|| one.clone()))
                .collect(),
        )
    }
}
