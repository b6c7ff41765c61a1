//! Responder errors: the fault classes of the architecture specification, 9.9.3.1.

use super::Call;
use crate::cq::Cq;
use crate::process::link::Serving;
use crate::qp::Qp;
use crate::qp::ring_message::{Answer, Nak};
use std::sync::Arc;
use verbena_abi::*;

/// A failed request: NAK for the requester, completion of the receive, and whether the queue pair
/// enters the error state.
pub(super) struct Failure {
    nak: Option<Nak>,
    pub(super) receive: Option<(u64, ibv_wc_status)>,
    /// Completion queue of an XRC shared receive queue, used instead of the queue pair's.
    shared: Option<Arc<Cq>>,
    pub(super) event: Option<ibv_event_type>,
}

impl Failure {
    /// The request is not answered, as if the packet were lost.
    pub(super) fn no_answer() -> Failure {
        Failure::answered(Nak::NoAnswer)
    }

    /// The request is answered with a NAK; the queue pair stays in its state.
    pub(super) fn answered(nak: Nak) -> Failure {
        Failure {
            nak: Some(nak),
            receive: None,
            shared: None,
            event: None,
        }
    }

    /// The request is invalid (classes B and C): the queue pair enters the error state.
    pub(super) fn fatal(nak: Nak) -> Failure {
        let event = match nak {
            Nak::RemoteAccess => IBV_EVENT_QP_ACCESS_ERR,
            Nak::InvalidRequest => IBV_EVENT_QP_REQ_ERR,
            _ => IBV_EVENT_QP_FATAL,
        };
        Failure {
            nak: Some(nak),
            receive: None,
            shared: None,
            event: Some(event),
        }
    }

    /// A receive was taken and completes with the error (classes A and C): the queue pair enters
    /// the error state.
    pub(super) fn of_receive(nak: Nak, wr_id: u64, status: ibv_wc_status) -> Failure {
        Failure::fatal(nak).with_receive(wr_id, status)
    }

    /// The responder fails without a NAK, for example because the key to invalidate is invalid
    /// (class J).
    pub(super) fn unanswered(wr_id: u64, status: ibv_wc_status) -> Failure {
        Failure {
            receive: Some((wr_id, status)),
            event: Some(IBV_EVENT_QP_REQ_ERR),
            ..Failure::answered(Nak::NoAnswer)
        }
    }

    /// Returns the failure for a message to a shared receive queue that completes in `cq`.
    pub(super) fn in_queue(self, cq: &Arc<Cq>) -> Failure {
        Failure {
            shared: Some(cq.clone()),
            ..self
        }
    }

    /// Returns the failure with the receive of a write with immediate data, which fails, too.
    pub(super) fn with_receive(self, wr_id: u64, status: ibv_wc_status) -> Failure {
        Failure {
            receive: Some((wr_id, status)),
            ..self
        }
    }
}

impl Call<'_> {
    /// Refuses a request. The queue pair enters the error state before the requester gets the NAK.
    /// An unreliable queue pair drops requests that are not allowed (class D), and fails only with
    /// a receive that it could not fill.
    pub(super) fn refuse(
        &self,
        serving: &mut Serving,
        queue_pair: Option<&Arc<Qp>>,
        failure: Failure,
    ) {
        let is_reliable = queue_pair.is_none_or(|queue_pair| queue_pair.is_reliable());
        let ends = is_reliable || failure.receive.is_some();
        self.report_refused(&failure, ends);
        let own = || queue_pair.and_then(|queue_pair| queue_pair.recv_cq.as_ref());
        let mut is_completed = false;
        if let Some((wr_id, status)) = failure.receive
            && let Some(cq) = failure.shared.as_ref().or_else(own)
        {
            self.complete(cq, wr_id, status);
            is_completed = true;
        }
        let mut nak = failure.nak;
        if let (Some(queue_pair), Some(event)) = (queue_pair, failure.event.filter(|_| ends))
            // A failed completion replaces the event.
            && !queue_pair.fail_as_responder((!is_completed).then_some(event))
        {
            // The queue pair failed for another reason in between, or was reset: no NAK is due.
            nak = nak.map(|_| Nak::NoAnswer);
        }
        if let Some(nak) = nak.filter(|_| is_reliable) {
            self.answer(serving, Answer::Nak(nak));
        }
    }
}
