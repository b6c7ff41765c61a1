//! State of incoming messages: multi-part messages, and those that wait for a receive.

use crate::qp::ring_message::Route;
use crate::receive::Receive;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_hca_shm::lane::Echo;
use verbena_hca_shm::registry::Identity;

/// State of one requester's messages, in one of its incarnations.
#[derive(Default)]
pub struct MessageState {
    source: u32,
    /// PSN of a refused packet: everything is dropped until it is repeated.
    drop_until: Option<u32>,
    /// A partly received message.
    pub(crate) current: Option<PartialMessage>,
}

/// A partly received message.
pub struct PartialMessage {
    /// Its receive.
    pub receive: Receive,
    /// Bytes received so far.
    pub(super) offset: u32,
}

impl MessageState {
    /// Begins a new state if the requester has a new incarnation. Returns the receive of a message
    /// that the previous one left incomplete.
    pub(super) fn begin_incarnation(&mut self, source: u32) -> Option<Receive> {
        if self.source == source {
            return None;
        }
        let left = std::mem::take(self).current;
        self.source = source;
        left.map(|partial| partial.receive)
    }

    /// Returns whether this incarnation of the requester has no incomplete or refused message.
    #[inline]
    pub(super) fn is_plain(&self, source: u32) -> bool {
        self.source == source && self.is_idle()
    }

    /// Returns whether requests without a receive are dropped.
    pub(super) fn drops(&self, source: u32) -> bool {
        self.source == source && self.drop_until.is_some()
    }

    /// Returns whether a write is dropped: all are, except the repetition of the refused write with
    /// immediate data.
    pub(super) fn drops_write(&self, source: u32, psn: u32) -> bool {
        self.source == source && self.drop_until.is_some_and(|awaited| awaited != psn)
    }

    /// Returns whether a message is dropped: all are, until the refused one is repeated from its
    /// beginning.
    pub(super) fn drops_message(&mut self, psn: u32, begins: bool) -> bool {
        match self.drop_until {
            Some(awaited) if awaited != psn || !begins => true,
            _ => {
                self.drop_until = None;
                false
            }
        }
    }

    /// Notes that the message with this PSN was refused and must be repeated.
    pub(super) fn await_again(&mut self, psn: u32) {
        self.drop_until = Some(psn);
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.drop_until.is_none() && self.current.is_none()
    }
}

/// The position behind the last message that a queue pair has received by a lane: the next one in
/// the other direction carries it.
#[derive(Default)]
pub struct ReceivedByLane(AtomicU64);

/// Set as soon as there was a message.
const RECEIVED: u64 = 1 << 63;
/// Above lane and position: so much of the requester's incarnation as there is space for.
const SOURCE_AT: u32 = 40;

/// Returns the bits by which a note names the requester.
#[inline]
fn mark_of(source: u32) -> u64 {
    RECEIVED | u64::from(source) << SOURCE_AT
}

impl ReceivedByLane {
    /// Notes a message of a requester in this incarnation, after it was answered and its slot
    /// released, and before it completes. Called under the receive queue's lock, in the incarnation
    /// that the message was sent to.
    #[inline]
    pub(super) fn note(&self, source: u32, echo: Echo) {
        let noted = u64::from(echo.lane) << 32 | u64::from(echo.position);
        // SYNC POINT lane echo.
        self.0.store(mark_of(source) | noted, Ordering::Release);
    }

    /// Forgets it: the queue pair is reset. Called under that lock.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Returns the position behind the last message of the requester in this incarnation.
    #[inline]
    pub(crate) fn last(&self, source: u32) -> Option<Echo> {
        // SYNC POINT lane echo.
        let noted = self.0.load(Ordering::Acquire);
        (noted >> SOURCE_AT == mark_of(source) >> SOURCE_AT).then_some(Echo {
            lane: (noted >> 32) as u8,
            position: noted as u32,
        })
    }
}

/// States of messages for XRC shared receive queues of this process, by sending queue pair, with
/// the incarnation of the queue pair that they were sent to. That may belong to another process, so
/// its reset shows only here.
#[derive(Default)]
pub struct XrcMessageStates(HashMap<(Identity, u32), (u32, MessageState)>);

impl XrcMessageStates {
    /// Returns the state of a queue pair of `process` that sends on this route.
    pub(super) fn of(&mut self, process: Identity, route: &Route) -> &mut MessageState {
        let (source, destination) = (route.source, route.destination.incarnation);
        let (receiver, message_state) = self.0.entry((process, source.number)).or_default();
        // The receive of an incomplete message is lost with its connection, because others share
        // the queue.
        if *receiver != destination {
            *receiver = destination;
            *message_state = MessageState::default();
        }
        message_state.begin_incarnation(source.incarnation);
        message_state
    }

    /// Removes a queue pair's state if nothing is incomplete.
    pub(super) fn forget_if_complete(&mut self, process: Identity, number: u32) {
        if self
            .0
            .get(&(process, number))
            .is_some_and(|(_, of)| of.is_idle())
        {
            self.0.remove(&(process, number));
        }
    }

    /// Removes the states of a dead process.
    pub(crate) fn forget(&mut self, process: Identity) {
        self.0.retain(|(of, _), _| *of != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::ring_message::Endpoint;

    #[test]
    fn new_requester_incarnation_resets_dropping() {
        let mut message_state = MessageState::default();
        message_state.begin_incarnation(7);
        message_state.await_again(100);
        assert!(message_state.drops(7));
        assert!(message_state.drops_message(101, true));
        assert!(message_state.drops_message(100, false));
        message_state.begin_incarnation(8);
        assert!(!message_state.drops(8));
        assert!(!message_state.drops_message(5, true));
    }

    #[test]
    fn repeated_message_ends_the_dropping() {
        let mut message_state = MessageState::default();
        message_state.begin_incarnation(1);
        message_state.await_again(9);
        assert!(!message_state.drops_message(9, true));
        assert!(!message_state.drops_message(10, true));
    }

    #[test]
    fn position_behind_a_message_by_a_lane_is_known_until_the_reset() {
        let received = ReceivedByLane::default();
        assert_eq!(received.last(0), None);
        for (source, lane, position) in [(0, 0, 0), (u32::MAX, 255, u32::MAX), (7, 1, 2)] {
            received.note(source, Echo { lane, position });
            assert_eq!(received.last(source), Some(Echo { lane, position }));
            assert_eq!(received.last(source ^ 1), None, "another incarnation");
        }
        received.clear();
        assert_eq!(received.last(7), None);
    }

    #[test]
    fn only_incomplete_message_states_are_kept() {
        let process = Identity {
            slot: 1,
            generation: 1,
        };
        let mut states = XrcMessageStates::default();
        let route = |source, destination| {
            let [source, destination] = [source, destination].map(|incarnation| Endpoint {
                number: 5,
                incarnation,
            });
            Route {
                destination,
                source,
                psn: 0,
            }
        };
        states.of(process, &route(1, 1)).await_again(3);
        states.forget_if_complete(process, 5);
        assert_eq!(states.0.len(), 1);
        // Either end was reset.
        for (source, destination) in [(2, 1), (2, 2)] {
            let of = states.of(process, &route(source, destination));
            assert!(!of.drops_message(0, true));
            of.await_again(3);
        }
        assert!(!states.of(process, &route(3, 2)).drops_message(0, true));
        states.forget_if_complete(process, 5);
        assert!(states.0.is_empty());
    }
}
