//! Responder errors. The rules of [`verbena_transport::fault`] decide their consequences, as for
//! packets.

use super::Call;
use crate::process::Cq;
use crate::process::Serving;
use crate::qp::Qp;
use crate::qp::ring_message::{Answer, Nak};
use crate::qp::send::packet_requester::status_of;
use std::sync::Arc;
use verbena_abi::*;
use verbena_transport::fault::{self, Event, Fault, ReceiveFate, Responder};
use verbena_wire::aeth::NakCode;

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

    /// The consequences of a fault that takes no receive.
    pub(super) fn by(fault: Fault) -> Failure {
        let consequence = fault.consequence(Responder::Reliable);
        Failure {
            event: consequence.event.map(event_code),
            ..Failure::answered(nak_of(consequence.answer))
        }
    }

    /// The consequences of a fault of a message that has taken a receive.
    pub(super) fn of_receive(fault: Fault, wr_id: u64) -> Failure {
        let receive = match fault.consequence(Responder::Reliable).receive {
            ReceiveFate::Completed(status) => Some((wr_id, status_of(status))),
            ReceiveFate::Untouched | ReceiveFate::Kept => None,
        };
        Failure {
            receive,
            ..Failure::by(fault)
        }
    }

    /// A datagram's receive fails with this status; the sender is not informed.
    pub(super) fn of_datagram(wr_id: u64, status: ibv_wc_status) -> Failure {
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

/// Returns the event's code.
pub(super) fn event_code(event: Event) -> ibv_event_type {
    match event {
        Event::InvalidRequest => IBV_EVENT_QP_REQ_ERR,
        Event::AccessViolation => IBV_EVENT_QP_ACCESS_ERR,
        Event::Fatal => IBV_EVENT_QP_FATAL,
    }
}

/// Returns the answer in a channel. Channels lose nothing, so no request is out of sequence, and an
/// RNR NAK, which carries the timer, is made by [`Failure::answered`].
fn nak_of(answer: fault::Answer) -> Nak {
    match answer {
        fault::Answer::Nak(NakCode::InvalidRequest) => Nak::InvalidRequest,
        fault::Answer::Nak(NakCode::RemoteAccessError) => Nak::RemoteAccess,
        fault::Answer::Nak(NakCode::RemoteOperationalError) => Nak::RemoteOperation,
        fault::Answer::Nak(_) | fault::Answer::Silence | fault::Answer::RnrNak => Nak::NoAnswer,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Specification, table "Responder Error Behavior Summary".
    #[test]
    fn faults_in_a_channel_have_the_consequences_of_the_error_table() {
        let table = [
            (
                Fault::TooManyReads,
                Nak::InvalidRequest,
                IBV_EVENT_QP_REQ_ERR,
            ),
            (
                Fault::MisalignedAtomic,
                Nak::InvalidRequest,
                IBV_EVENT_QP_REQ_ERR,
            ),
            (
                Fault::UnsupportedOpcode,
                Nak::InvalidRequest,
                IBV_EVENT_QP_REQ_ERR,
            ),
            (
                Fault::NoSharedReceiveQueue,
                Nak::InvalidRequest,
                IBV_EVENT_QP_REQ_ERR,
            ),
            (
                Fault::RemoteAccess,
                Nak::RemoteAccess,
                IBV_EVENT_QP_ACCESS_ERR,
            ),
            (Fault::Operation, Nak::RemoteOperation, IBV_EVENT_QP_FATAL),
        ];
        for (fault, nak, event) in table {
            let failure = Failure::by(fault);
            assert_eq!(
                (failure.nak, failure.event),
                (Some(nak), Some(event)),
                "{fault:?}"
            );
            assert_eq!(failure.receive, None);
        }
        let table = [
            (
                Fault::ReceiveTooSmall,
                Nak::InvalidRequest,
                IBV_WC_LOC_LEN_ERR,
            ),
            (
                Fault::ReceiveProtection,
                Nak::RemoteOperation,
                IBV_WC_LOC_PROT_ERR,
            ),
            (Fault::Invalidate, Nak::NoAnswer, IBV_WC_REM_INV_REQ_ERR),
        ];
        for (fault, nak, status) in table {
            let failure = Failure::of_receive(fault, 7);
            assert_eq!(
                (failure.nak, failure.receive),
                (Some(nak), Some((7, status))),
                "{fault:?}"
            );
            assert!(failure.event.is_some());
        }
    }
}
