//! Responder errors. The rules of [`verbena_transport::fault`] decide their consequences, as for
//! packets.

use super::Call;
use crate::process::Cq;
use crate::process::Serving;
use crate::qp::Qp;
use crate::qp::ring_message::{Answer, Nak};
use crate::qp::terms::event_code;
use std::sync::Arc;
use verbena_transport::completion::Status;
use verbena_transport::fault::{self, Consequence, Fault, Next, ReceiveFate, Responder};

/// A request that was not executed.
pub(super) struct Failure {
    cause: Cause,
    /// The receive that the message has taken, and that cannot be kept for another one.
    receive: Option<u64>,
    /// Completion queue of an XRC shared receive queue, used instead of the queue pair's.
    shared: Option<Arc<Cq>>,
    /// The timer code of an RNR NAK.
    rnr_timer: u8,
}

/// Why a request was not executed.
#[derive(Clone, Copy)]
enum Cause {
    /// It violates a rule of the transport.
    Fault(Fault),
    /// The channel's own reasons: the queue pair stays in its state.
    Answer(Nak),
}

impl Failure {
    /// The request is not answered, as if the packet were lost.
    pub(super) fn no_answer() -> Failure {
        Failure::answered(Nak::NoAnswer)
    }

    /// The request is answered with a NAK; the queue pair stays in its state.
    pub(super) fn answered(nak: Nak) -> Failure {
        Failure::of(Cause::Answer(nak))
    }

    /// A fault of a request that has taken no receive, or keeps it.
    pub(super) fn by(fault: Fault) -> Failure {
        Failure::of(Cause::Fault(fault))
    }

    fn of(cause: Cause) -> Failure {
        Failure {
            cause,
            receive: None,
            shared: None,
            rnr_timer: 0,
        }
    }

    /// No receive is posted.
    pub(super) fn not_ready(rnr_timer: u8) -> Failure {
        Failure {
            rnr_timer,
            ..Failure::by(Fault::ReceiverNotReady)
        }
    }

    /// Returns the failure of a message that has taken this receive.
    pub(super) fn with_receive(self, wr_id: u64) -> Failure {
        Failure {
            receive: Some(wr_id),
            ..self
        }
    }

    /// Returns the failure for a message to a shared receive queue that completes in `cq`.
    pub(super) fn in_queue(self, cq: &Arc<Cq>) -> Failure {
        Failure {
            shared: Some(cq.clone()),
            ..self
        }
    }

    fn consequence(&self, responder: Responder) -> Option<Consequence> {
        match self.cause {
            Cause::Fault(fault) => Some(fault.consequence(responder)),
            Cause::Answer(_) => None,
        }
    }

    /// Returns whether a receive that the message has taken ends with it.
    pub(super) fn ends_receive(&self, responder: Responder) -> bool {
        let fate = self.consequence(responder).map(|one| one.receive);
        matches!(fate, Some(ReceiveFate::Completed(_)))
    }

    /// Returns the receive that fails, and its status.
    pub(super) fn failed_receive(&self, responder: Responder) -> Option<(u64, Status)> {
        match self.consequence(responder)?.receive {
            ReceiveFate::Completed(status) => self.receive.map(|wr_id| (wr_id, status)),
            ReceiveFate::Untouched | ReceiveFate::Kept => None,
        }
    }

    /// Returns the answer in the channel. Without one on the wire, the requester waits.
    fn nak(&self, consequence: Option<&Consequence>) -> Nak {
        match (
            self.cause,
            consequence.map(|consequence| consequence.answer),
        ) {
            (Cause::Answer(nak), _) => nak,
            (_, Some(fault::Answer::Nak(code))) => Nak::Refused(code),
            (_, Some(fault::Answer::RnrNak)) => Nak::ReceiverNotReady(self.rnr_timer),
            (_, Some(fault::Answer::Silence) | None) => Nak::NoAnswer,
        }
    }
}

impl Qp {
    /// Returns the kind of responder, which decides the consequences of a fault.
    pub(super) fn responder_kind(&self) -> Responder {
        Responder::of(self.rule_kind(), self.srq.is_some())
    }
}

impl Call<'_> {
    /// Refuses a request. The queue pair enters the error state before the requester gets the NAK.
    pub(super) fn refuse(
        &self,
        serving: &mut Serving,
        queue_pair: Option<&Arc<Qp>>,
        failure: Failure,
    ) {
        // The queue pair of an XRC message may belong to another process.
        let responder = queue_pair.map_or(Responder::Reliable, |of| of.responder_kind());
        let consequence = failure.consequence(responder);
        let mut nak = failure.nak(consequence.as_ref());
        if let Some(consequence) = consequence {
            let receive = failure.failed_receive(responder);
            self.report_refused(&consequence, receive);
            let own = || queue_pair.and_then(|queue_pair| queue_pair.recv_cq.as_ref());
            let cq = failure.shared.as_ref().or_else(own);
            let is_completed = receive.zip(cq).map(|((wr_id, status), cq)| {
                self.complete(cq, wr_id, status);
            });
            // The receive's completion replaces the event.
            let event = consequence.event.filter(|_| is_completed.is_none());
            if consequence.next == Next::ErrorState
                && let Some(queue_pair) = queue_pair
                && !queue_pair.fail_as_responder(event.map(event_code))
            {
                // The queue pair failed for another reason in between, or was reset: no NAK is due.
                nak = Nak::NoAnswer;
            }
        }
        if responder == Responder::Reliable {
            self.answer(serving, Answer::Nak(nak));
        }
    }
}
