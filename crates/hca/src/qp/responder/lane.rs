//! Responder for short messages in a lane ([`verbena_hca_shm::lane`]).
//!
//! A message that is plain in every respect is served here, with the checks of the fast path for
//! records (`plain`), except that the gates of both queue pairs replace those of their
//! states. Any other becomes the record that it stands for, on the general path.

use super::plain::{PlainMessage, complete, place};
use super::{Progress, serve};
use crate::cq::Taking;
use crate::process::lane_ends::{LaneState, OpenGate, OpenGates};
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

/// Returns whether the gates are those that were noted. If not, forgets them.
#[inline(always)]
fn are_open(noted: &mut Option<OpenGates>) -> bool {
    let Some(gates) = noted else {
        return false;
    };
    let is_open = gates.receiver.is_unchanged() && gates.sender.is_unchanged();
    // Gates that were open once count as open for ever, by a planted fault.
    if is_open || planted::is(Bug::LaneGate) {
        return true;
    }
    *noted = None;
    false
}

impl LaneState<Qp> {
    /// Returns whether both queue pairs have exchanged plain messages, or do so from now on. A
    /// message is served only if [`LaneState::is_open`] as well.
    #[inline]
    pub fn was_open(&mut self, process: &Process, inbound: &Inbound) -> bool {
        self.gates.is_some() || self.has_opened(process, inbound)
    }

    /// Returns whether the gates are those that were noted, with which both queue pairs exchange
    /// plain messages in the states and incarnations that they are in.
    #[inline]
    pub fn is_open(&mut self) -> bool {
        are_open(&mut self.gates)
    }

    /// Notes the gates, if both queue pairs exchange plain messages now. Returns whether they do.
    #[cold]
    #[inline(never)]
    fn has_opened(&mut self, process: &Process, inbound: &Inbound) -> bool {
        // SYNC POINT gate: loaded before the words that are checked.
        let receiver = OpenGate::of(process.memory.contexts(), self.destination.number);
        let sender = OpenGate::of(&inbound.peer.contexts, self.source.number);
        let record = sender.record();
        let requester = record.state.load(Ordering::SeqCst);
        let is_live = requester & QpRecord::PRESENT != 0
            && requester & 0xff != IBV_QPS_ERR
            && record.incarnation.load(Ordering::Relaxed) == self.source.incarnation;
        let receives = self.queue_pair.as_ref().is_some_and(|queue_pair| {
            queue_pair.receives_plainly
                && queue_pair.state() != IBV_QPS_RTR
                && queue_pair.is_connected_to(&self.route(0))
        });
        let is_open = is_live && receives && !inbound.peer.is_dead();
        self.gates = is_open.then_some(OpenGates { receiver, sender });
        is_open
    }

    /// Serves the message at the front of the lane, if that is open and the message is plain.
    /// Returns whether it did.
    #[inline(always)]
    pub fn is_plain_served(
        &mut self,
        process: &Process,
        inbound: &Arc<Inbound>,
        store: Lane<'_>,
        found: &lane::Message,
        taking: Option<&mut Taking<'_, Process>>,
    ) -> bool {
        let Some(message) = LaneMessage::parse(&found.header) else {
            return false;
        };
        let Some(queue_pair) = self.queue_pair.as_deref() else {
            return false;
        };
        // SAFETY: a slot holds the immediate data and as many bytes more as `parse` has checked.
        let (immediate, payload) = unsafe { message.parse_immediate(found.payload) };
        let plain = PlainMessage {
            source: self.source.number,
            payload,
            total: message.length,
            solicited: message.solicited,
            immediate,
        };
        // Held until the completion is pushed, as on the fast path for records.
        let mut receive = queue_pair.lock_receive();
        // Checked under the lock that a reset holds while it empties the queue.
        let is_plain = receive.message_state.is_plain(self.source.incarnation);
        if !are_open(&mut self.gates)
            || !(is_plain || planted::is(Bug::LaneGate))
            || process.lanes.chance(8)
        {
            return false;
        }
        let next = self.position.wrapping_add(1);
        if planted::is(Bug::LaneHead) {
            lane::release(&store, next);
            std::thread::yield_now();
        }
        let Some(wr_id) = place(inbound, queue_pair, &mut receive, &plain) else {
            return false;
        };
        lane::release(&store, next);
        self.note_received(queue_pair, next);
        complete(queue_pair, wr_id, &plain, taking);
        self.position = next;
        true
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
