//! Progress by threads that poll a completion queue.

use crate::cq::{Look, Taking};
use crate::process::{Process, SeenChannels};
use std::sync::atomic::Ordering;

/// Number of peers that an empty poll looks at in each direction.
const LOOKS: usize = 16;
/// Looks in a row that may end at the lanes because they have filled the queue.
const SATISFIED: u32 = 16;

/// Returns the channels whose turn it is.
#[inline]
fn some_of<T>(all: &[T], turn: usize) -> &[T] {
    let rest = all.get(turn..).unwrap_or_default();
    &rest[..rest.len().min(LOOKS)]
}

impl Process {
    /// Looks once at each word that [`Process::poll_progress`] looks at.
    #[inline(always)]
    pub(crate) fn look(&self, seen: &mut SeenChannels) -> Look {
        if self.channels.is_newer_than(&seen.channels)
            || seen.armings != self.activity.armings(Ordering::Relaxed)
            || seen.most > LOOKS
            || seen.satisfied >= SATISFIED
        {
            return Look::Work;
        }
        if seen.has_message() || seen.is_awaiting() {
            return Look::Lanes;
        }
        match self.is_rest_quiet(seen) {
            true => Look::Nothing,
            false => Look::Work,
        }
    }

    /// Returns whether there is nothing to do outside of the queue's lanes. If so, counts the poll.
    #[inline(always)]
    fn is_rest_quiet(&self, seen: &mut SeenChannels) -> bool {
        for one in &seen.channels.inbound {
            if one.has_request() {
                return false;
            }
        }
        for one in &seen.channels.outbound {
            if !one.is_idle() {
                return false;
            }
        }
        if self.ports.roce().is_some()
            || self.timers.next() != u64::MAX
            || seen.is_turn_of_others_next()
            || !self.activity.is_quiet(&mut seen.looks)
        {
            return false;
        }
        seen.note_quiet();
        true
    }

    /// Makes progress after [`Look::Lanes`] for the polling thread, and takes its completions.
    #[inline(always)]
    pub(crate) fn poll_own_lanes(&self, seen: &mut SeenChannels, taking: &mut Taking<'_, Process>) {
        let (lanes_in, lanes_out) = seen.lanes();
        let worked = self.poll_lanes(&seen.channels, lanes_in, lanes_out, taking);
        if worked && taking.has_some() {
            self.activity.note_poll();
            seen.satisfied += 1;
            return;
        }
        if worked || !self.is_rest_quiet(seen) {
            self.poll_rest(seen);
        }
    }

    /// Makes progress outside of the queue's lanes.
    #[inline(never)]
    fn poll_rest(&self, seen: &mut SeenChannels) {
        self.activity.note_poll();
        seen.satisfied = 0;
        self.progress_after_lanes(seen);
    }

    /// Makes progress for a thread that polled a completion queue, found it empty, and takes its
    /// completions.
    #[inline(always)]
    pub(crate) fn poll_progress(&self, seen: &mut SeenChannels, taking: &mut Taking<'_, Process>) {
        self.activity.note_poll();
        seen.look(&self.channels, || taking.number());
        let armings = self.activity.armings(Ordering::Relaxed);
        if seen.armings != armings {
            // The first poll after an arming looks at all: a thread that has armed a queue and
            // polled it once more may then sleep.
            seen.armings = armings;
            return self.progress_after_arming(seen);
        }
        // Among many peers, polls take turns: ready work is found after a few of them, as soon as
        // by one long look.
        let turn = match seen.most <= LOOKS {
            true => None,
            false => Some(seen.take_turn(LOOKS)),
        };
        if seen.satisfied >= SATISFIED {
            // Before this poll takes completions.
            seen.satisfied = 0;
            self.progress_after_lanes(seen);
        }
        let (mut lanes_in, mut lanes_out) = seen.lanes();
        if let Some(turn) = turn {
            (lanes_in, lanes_out) = (some_of(lanes_in, turn), some_of(lanes_out, turn));
        }
        let channels = &seen.channels;
        let worked = self.poll_lanes(channels, lanes_in, lanes_out, taking);
        if worked && taking.has_some() {
            seen.satisfied += 1;
            return;
        }
        seen.satisfied = 0;
        let (inbound, outbound) = (&channels.inbound[..], &channels.outbound[..]);
        let (inbound, outbound) = match turn {
            None => (inbound, outbound),
            Some(turn) => (some_of(inbound, turn), some_of(outbound, turn)),
        };
        self.progress_on_rings(channels, inbound, outbound);
        if seen.is_turn_of_others() {
            self.progress_on_others(seen);
        }
        self.activity.yield_to_thread(&mut seen.looks);
    }

    /// Serves channels, and the network, after polls that ended at the lanes.
    #[cold]
    #[inline(never)]
    fn progress_after_lanes(&self, seen: &mut SeenChannels) {
        let channels = &seen.channels;
        self.progress_on_rings(channels, &channels.inbound, &channels.outbound);
        if seen.is_turn_of_others() {
            self.progress_on_others(seen);
        }
        self.activity.yield_to_thread(&mut seen.looks);
    }

    #[cold]
    #[inline(never)]
    fn progress_after_arming(&self, seen: &mut SeenChannels) {
        self.progress_on(&seen.channels);
        self.activity.yield_to_thread(&mut seen.looks);
    }

    /// As [`Process::poll_progress`], on all channels and lanes, without a view of them.
    pub(crate) fn poll_progress_on_all(&self) {
        self.activity.note_poll();
        self.progress();
    }

    #[cold]
    #[inline(never)]
    fn progress_on_others(&self, seen: &mut SeenChannels) {
        let (lanes_in, lanes_out) = seen.others();
        self.progress_on_lanes(&seen.channels, &lanes_in, &lanes_out);
    }
}
