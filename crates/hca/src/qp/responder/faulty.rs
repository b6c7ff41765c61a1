//! Requests in which the responder is to find a fault, by a rule of the requester
//! ([`crate::causes`]), and receives that are to fail, by one of the responder.

use super::Call;
use super::failure::Failure;
use crate::process::Serving;
use crate::qp::Qp;
use crate::qp::ring_message::{Faulty, LaneNotice};
use std::sync::Arc;
use verbena_hca_os::refusal;
use verbena_transport::fault::Fault;

impl Call<'_> {
    /// Serves a record that is no regular request: one with a fault, or one that no correct peer
    /// sends.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_no_request(&self, queue_pair: Option<&Arc<Qp>>, serving: &mut Serving) {
        if let Some(notice) = LaneNotice::parse(&self.record.header) {
            self.process
                .open_lane(self.inbound, serving, &self.route, notice);
            return;
        }
        let Some(faulty) = Faulty::parse(&self.record.header) else {
            self.inbound.peer.declare_dead();
            return;
        };
        serving.read_progress = 0;
        if !self.is_from_live_requester() {
            // The requester has ended this connection and expects no answer.
            return;
        }
        let served = match queue_pair.filter(|one| one.is_connected_to(&self.route)) {
            Some(queue_pair) => {
                queue_pair.establish();
                self.serve_faulty(queue_pair, faulty)
            }
            None => Err(Failure::no_answer()),
        };
        if let Err(failure) = served {
            self.refuse(serving, queue_pair, failure);
        }
    }

    /// Refuses a request with its fault; one that a missing receive or an earlier refusal precedes
    /// is refused or dropped for that.
    fn serve_faulty(&self, queue_pair: &Arc<Qp>, faulty: Faulty) -> Result<(), Failure> {
        let mut guard = queue_pair.lock_receive();
        // Checked under the lock that a reset holds while it empties the queue.
        if !queue_pair.is_connected_to(&self.route) {
            return Err(Failure::no_answer());
        }
        let put_back = |ring: &mut crate::receive::ReceiveRing, receive| match &queue_pair.srq {
            Some(srq) => srq.put_back(receive),
            None => ring.put_back(receive),
        };
        let source = self.route.source.incarnation;
        if let Some(left) = guard.message_state.begin_incarnation(source) {
            put_back(&mut guard.ring, left);
        }
        if guard.message_state.drops_message(self.route.psn, true) {
            return Ok(());
        }
        refusal::note(format_args!("{} of the sender", refusal::BY_RULE));
        let timer = guard.rnr_timer;
        if faulty.fault == Fault::ReceiverNotReady {
            guard.message_state.await_again(self.route.psn);
            return Err(Failure::not_ready(timer));
        }
        let failure = Failure::by(faulty.fault);
        if !faulty.takes_receive || !failure.ends_receive(queue_pair.responder_kind()) {
            return Err(failure);
        }
        let taken = match &queue_pair.srq {
            Some(srq) => srq.take().inspect(|_| srq.note_used()),
            None => guard.ring.take(),
        };
        match taken {
            Some(receive) => Err(failure.with_receive(receive.wr_id)),
            None => {
                guard.message_state.await_again(self.route.psn);
                Err(Failure::not_ready(timer))
            }
        }
    }
}
