//! Responder for short messages in a lane ([`verbena_hca_shm::lane`]).
//!
//! A message that is plain in every respect is served here, with the checks of the fast path for
//! records (`plain`), except that the gates of both queue pairs replace those of their
//! states. Any other becomes the record that it stands for, on the general path.

use super::plain::{PlainMessage, deliver};
use super::{Progress, serve};
use crate::cq::Taking;
use crate::process::lane_ends::LaneState;
use crate::process::{Inbound, Process, QpCache, Serving};
use crate::qp::Qp;
use crate::qp::ring_message::{Endpoint, LaneMessage, Route};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_shm::channel::Lane;
use verbena_hca_shm::context_table::QpRecord;
use verbena_hca_shm::lane::{self, Echo};
use verbena_hca_shm::ring::Record;

impl LaneState<Qp> {
    /// Notes at the receiving queue pair that all messages before a position were received.
    #[inline]
    fn note_received(&self, queue_pair: &Qp, position: u32) {
        let lane = self.number_in_channel as u8;
        let source = self.source.incarnation;
        queue_pair
            .received_by_lane
            .note(source, Echo { lane, position });
    }

    fn route(&self, psn: u32) -> Route {
        let endpoint = |number, incarnation| Endpoint {
            number,
            incarnation,
        };
        Route {
            destination: endpoint(self.destination.number, self.destination.incarnation),
            source: endpoint(self.source.number, self.source.incarnation),
            psn,
        }
    }
}

/// Returns the gates of the receiving and of the sending queue pair.
#[inline]
fn gates_of(own: &QpRecord, peer: &QpRecord) -> (u32, u32) {
    // SYNC POINT gate.
    (
        own.gate.load(Ordering::SeqCst),
        peer.gate.load(Ordering::SeqCst),
    )
}

/// Notes the gates with which both queue pairs exchange plain messages in the states and
/// incarnations that they are in, if they do.
#[cold]
#[inline(never)]
fn open_gates(inbound: &Inbound, state: &mut LaneState<Qp>, own: &QpRecord, peer: &QpRecord) {
    // SYNC POINT gate: loaded before the words that are checked.
    let gates = gates_of(own, peer);
    let requester = peer.state.load(Ordering::SeqCst);
    let is_live = requester & QpRecord::PRESENT != 0
        && requester & 0xff != IBV_QPS_ERR
        && peer.incarnation.load(Ordering::Relaxed) == state.source.incarnation;
    let receives = state.queue_pair.as_ref().is_some_and(|queue_pair| {
        queue_pair.receives_plainly
            && queue_pair.state() != IBV_QPS_RTR
            && queue_pair.is_connected_to(&state.route(0))
    });
    state.gates = (is_live && receives && !inbound.peer.is_dead()).then_some(gates);
}

/// The records of both queue pairs of a lane.
pub struct Ends<'a> {
    receiver: &'a QpRecord,
    sender: &'a QpRecord,
}

impl<'a> Ends<'a> {
    /// Returns the records.
    #[inline]
    pub fn of(process: &'a Process, inbound: &'a Inbound, state: &LaneState<Qp>) -> Ends<'a> {
        let contexts = process.memory.contexts();
        Ends {
            receiver: contexts.queue_pair(state.destination.number),
            sender: inbound.peer.contexts.queue_pair(state.source.number),
        }
    }

    /// Returns whether both queue pairs exchange plain messages in the states and incarnations that
    /// they are in.
    #[inline]
    pub fn are_open(&self, inbound: &Inbound, state: &mut LaneState<Qp>) -> bool {
        if self.have_gates(state) {
            return true;
        }
        open_gates(inbound, state, self.receiver, self.sender);
        state.gates.is_some()
    }

    /// Returns whether the gates are those that were noted.
    #[inline]
    fn have_gates(&self, state: &LaneState<Qp>) -> bool {
        // Gates that were open once count as open for ever, by a planted fault.
        state.gates == Some(gates_of(self.receiver, self.sender))
            || state.gates.is_some() && planted::is(Bug::LaneGate)
    }

    /// Serves the message at the front of a lane whose gates are open, if it is plain. Returns
    /// whether it was.
    #[inline(always)]
    pub fn is_plain_served(
        &self,
        process: &Process,
        inbound: &Arc<Inbound>,
        state: &mut LaneState<Qp>,
        store: &Lane<'_>,
        found: &lane::Message,
        taking: Option<&mut Taking<'_, Process>>,
    ) -> bool {
        let (Some(queue_pair), Some(message)) = (
            state.queue_pair.as_deref(),
            LaneMessage::parse(&found.header),
        ) else {
            return false;
        };
        // SAFETY: a slot holds the immediate data and as many bytes more as `parse` has checked.
        let (immediate, payload) = unsafe { message.parse_immediate(found.payload) };
        let plain = PlainMessage {
            source: state.source.number,
            payload,
            total: message.length,
            solicited: message.solicited,
            immediate,
        };
        // Held until the completion is pushed, as on the fast path for records.
        let mut receive = queue_pair.lock_receive();
        // Checked under the lock that a reset holds while it empties the queue.
        let is_plain = receive.message_state.is_plain(state.source.incarnation);
        if !self.have_gates(state)
            || !(is_plain || planted::is(Bug::LaneGate))
            || process.lanes.chance(8)
        {
            return false;
        }
        let next = state.position.wrapping_add(1);
        if planted::is(Bug::LaneHead) {
            lane::release(store, next);
            std::thread::yield_now();
        }
        let acknowledge = || {
            lane::release(store, next);
            state.note_received(queue_pair, next);
        };
        let is_served = deliver(
            inbound,
            queue_pair,
            &mut receive,
            &plain,
            acknowledge,
            taking,
        );
        if is_served {
            state.position = next;
        }
        is_served
    }
}

/// Serves the message at the front of a lane, which is published, on the general path. Returns
/// whether it was served; if not, answers need space.
pub fn is_next_served(
    process: &Process,
    inbound: &Arc<Inbound>,
    state: &mut LaneState<Qp>,
    serving: &mut Serving,
    qp_cache: &mut QpCache,
) -> bool {
    let store = inbound.channel.lane(state.number_in_channel);
    let Some(found) = lane::peek(&store, state.position, state.generation) else {
        return true;
    };
    let Some(message) = LaneMessage::parse(&found.header) else {
        // No correct peer sends it. The message is passed over, so that this ends.
        inbound.peer.declare_dead();
        state.position = state.position.wrapping_add(1);
        return true;
    };
    // SAFETY: a slot holds the immediate data and as many bytes more as `parse` has checked.
    let (immediate, payload) = unsafe { message.parse_immediate(found.payload) };
    let record = Record {
        header: message.record(&state.route(message.psn), immediate),
        payload,
    };
    // That of a read in the channel, which may be answered in part.
    let read_progress = serving.read_progress;
    let progress = serve(process, inbound, serving, qp_cache, &record);
    let is_served = match progress {
        Progress::Blocked => false,
        Progress::Done(delivered) => {
            state.position = state.position.wrapping_add(1);
            // SYNC POINT lane head: behind the answer, and before the application can answer the
            // completion.
            lane::release(&store, state.position);
            if let Some(queue_pair) = &state.queue_pair {
                // A message that completes holds the lock already.
                let _held = delivered.is_none().then(|| queue_pair.lock_receive());
                // A reset begins the new incarnation before it takes this lock to clear the note.
                if queue_pair.incarnation() == state.destination.incarnation {
                    state.note_received(queue_pair, state.position);
                }
            }
            if let Some(delivered) = delivered {
                delivered.push();
            }
            true
        }
    };
    serving.read_progress = read_progress;
    is_served
}
