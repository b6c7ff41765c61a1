//! Changes of state, and the events that report them.

use super::Qp;
use super::responder::message_state::MessageState;
use super::send::SendQueue;
use crate::causes;
use crate::event::AsyncEvent;
use crate::link;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_shm::context_table::QpRecord;

impl Qp {
    /// Enters the reset state: drops all posted requests without completions, and begins a new
    /// incarnation.
    pub(super) fn reset(&self, send: &mut SendQueue) {
        self.set_state(send, IBV_QPS_RESET);
        self.incarnation.store(
            self.process.membership.next_incarnation(),
            Ordering::Release,
        );
        self.memory
            .contexts()
            .queue_pair(self.number)
            .incarnation
            .store(self.incarnation(), Ordering::SeqCst);
        self.memory.contexts().queue_pair(self.number).change_gate();
        self.clear(send);
    }

    /// Changes the state; no other code does. Peers that access the queue pair directly stop when
    /// the new state forbids it.
    pub(super) fn set_state(&self, send: &mut SendQueue, state: ibv_qp_state) {
        self.state.store(state, Ordering::Release);
        self.show_state(send);
    }

    /// Publishes the state, and whether the port is up, its link not cut and the fabric has a path.
    pub(super) fn show_state(&self, send: &mut SendQueue) {
        let is_cut = link::is_down(send.port) || causes::link::is_cut(send.port) || send.is_lost;
        send.is_off_path = is_cut || send.causes.is_some();
        let record = self.memory.contexts().queue_pair(self.number);
        let cut = if is_cut { QpRecord::CUT } else { 0 };
        let word = QpRecord::PRESENT | cut | self.kind << 8 | self.state();
        record.state.store(word, Ordering::SeqCst);
        record.change_gate();
    }

    /// Handles a port that was taken down or up.
    pub(crate) fn port_changed(self: &Arc<Qp>, port: u8) {
        let mut send = self.lock_send();
        if send.port == port && !self.is_destroyed() {
            self.show_state(&mut send);
        }
    }

    /// Handles an adapter that has failed, or a link that was cut or mended.
    pub(crate) fn path_has_changed(self: &Arc<Qp>) {
        let mut send = self.lock_send();
        if !self.is_destroyed() {
            self.show_state(&mut send);
        }
    }

    /// Drops all posted requests without completions.
    fn clear(&self, send: &mut SendQueue) {
        send.clear();
        {
            let mut receive = self.lock_receive();
            receive.ring.clear();
            receive.message_state = MessageState::default();
            self.received_by_lane.clear();
            receive.packets = None;
        }
        self.established.store(false, Ordering::Relaxed);
        self.for_each_cq(|cq| cq.clean(self.number));
    }

    /// Enters the error state: all posted requests complete as flushed.
    pub(super) fn enter_error(&self, send: &mut SendQueue) {
        self.enter_error_from(self.state(), send);
    }

    /// As [`Qp::enter_error`], with the previous state given.
    pub(super) fn enter_error_from(&self, before: ibv_qp_state, send: &mut SendQueue) {
        let was_in_error = before == IBV_QPS_ERR;
        self.set_state(send, IBV_QPS_ERR);
        send.packets = None;
        for flushed in send.take_pending() {
            self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
        }
        self.flush_receives();
        let shares_receives = self.srq.is_some() || self.kind == IBV_QPT_XRC_RECV;
        if shares_receives && !was_in_error {
            self.raise(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }

    /// Enters the error state because of a responder error; `event` reports errors that have no
    /// completion. Returns whether the queue pair was receiving until now.
    pub(crate) fn fail_as_responder(&self, event: Option<ibv_event_type>) -> bool {
        let mut send = self.lock_send();
        if !self.receives() {
            return false;
        }
        self.enter_error(&mut send);
        if let Some(event) = event {
            self.raise(event);
        }
        true
    }

    pub(super) fn raise(&self, kind: ibv_event_type) {
        let element = self.cookie.load(Ordering::Acquire);
        if element != 0 {
            self.events.push(AsyncEvent { kind, element });
        }
    }
}
