//! Requests in which the responder is to find a fault, by a rule of the requester
//! ([`crate::causes`]), and receives that are to fail, by one of the responder.

use super::Call;
use super::failure::Failure;
use crate::qp::Qp;
use crate::qp::ring_message::Faulty;
use std::sync::Arc;
use verbena_hca_os::refusal;
use verbena_transport::fault::Fault;

impl Call<'_> {
    /// Refuses a request with its fault; one that a missing receive or an earlier refusal precedes
    /// is refused or dropped for that.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_faulty(&self, queue_pair: &Arc<Qp>, faulty: Faulty) -> Result<(), Failure> {
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
