//! Requests of queue pairs with rules ([`crate::causes`]), and of those whose port is down.

use super::outcome::Outcome;
use super::{Job, is_local};
use crate::causes::Planted;
use crate::causes::link::is_cut;
use crate::causes::passage::{Arrival, Fence};
use crate::link;
use crate::qp::Qp;
use crate::qp::ring_message::Faulty;
use crate::qp::send::{RequestProgress, SendQueue, SendRequest};
use crate::qp::terms::{is_answered, request_kind};
use std::sync::Arc;
use verbena_abi::*;
use verbena_faults::site::Operation;
use verbena_faults::status::Status;
use verbena_transport::assembly::takes_receive_before_key;
use verbena_transport::fault::Fault;
use verbena_wire::opcode::Kind;

/// A remote key that names nothing: index 0 is never used.
pub(in crate::qp) const NO_KEY: u32 = 0;

impl Qp {
    /// As [`Qp::execute_on_path`], for a queue pair that has rules, or whose port is down.
    #[cold]
    #[inline(never)]
    pub(super) fn execute_off_path(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        let arrival = self.arrival(send, index);
        let outcome = match arrival {
            Err(waits) if !matches!(waits, Outcome::Failed(_)) => waits,
            arrival => self.execute_arrived(send, request, index, psn, progress, arrival),
        };
        match outcome {
            Outcome::Done if send.causes.is_some() => Outcome::DoneLater,
            outcome => outcome,
        }
    }

    /// As [`Qp::execute_off_path`], for a request that arrives now, or is lost with this outcome.
    fn execute_arrived(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
        arrival: Result<Arrival, Outcome>,
    ) -> Outcome {
        let status = self.planted_status(send, request, index, psn);
        if link::has_failed() {
            return Outcome::Order;
        }
        if let Some(status) = status.filter(|status| is_local_failure(*status)) {
            return Outcome::Failed(code_of(status));
        }
        if request.flags & IBV_SEND_FENCE != 0
            && let Some(passages) = send.passages()
        {
            match passages.fence(index) {
                Fence::Open => {}
                Fence::Until(time) => return Outcome::Wait(time),
                Fence::Closed => return Outcome::Order,
            }
        }
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(lost) => {
                let hindered = self.blocking_outcome(send, request);
                return hindered.unwrap_or_else(|| self.local_fault_or(request, lost));
            }
        };
        if is_local(request.opcode) {
            return self.execute_on_path(send, request, index, psn, progress);
        }
        if send.is_lost && !self.loses_packets(send) {
            send.is_lost = false;
            self.show_state(send);
        }
        if link::is_down(send.port)
            || send.is_lost
            || (is_cut(send.port) && send.packets.is_none())
            || (status == Some(Status::RetryExceeded) && send.packets.is_none())
        {
            let hindered = self.blocking_outcome(send, request);
            return hindered.unwrap_or_else(|| self.local_fault_or(request, self.no_answer()));
        }
        if self.kind == IBV_QPT_UD && arrival != Arrival::Once {
            let hindered = self.blocking_outcome(send, request);
            return hindered.unwrap_or_else(|| self.send_datagram_as(send, request, psn, arrival));
        }
        if self.kind == IBV_QPT_UD
            && let Some(link) = &self.link
        {
            let outcome = self.execute_on_path(send, request, index, psn, progress);
            if outcome == Outcome::Done {
                link.sent_another();
            }
            return outcome;
        }
        if arrival == Arrival::Never {
            return self.local_fault_or(request, self.no_answer());
        }
        let status = status.filter(|_| send.packets.is_none());
        match status {
            Some(Status::RemoteAccess) => {
                let request = SendRequest {
                    rkey: NO_KEY,
                    ..*request
                };
                self.execute_on_path(send, &request, index, psn, progress)
            }
            Some(status) => match faulty(request, send.mtu, status) {
                Some(faulty) => self.ask_faulty(send, request, index, psn, faulty),
                None => self.execute_on_path(send, request, index, psn, progress),
            },
            // Over packets the cause is in them ([`Qp::alter_packet`]).
            None => self.execute_on_path(send, request, index, psn, progress),
        }
    }

    /// Returns the status with which a request is to end. Counts it when it begins.
    fn planted_status(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
    ) -> Option<Status> {
        self.meet_receiver(send, request);
        let mut causes = send.causes.take()?;
        causes.begin(
            index,
            operation_of(request.opcode),
            |status| self.can_end(send, request, status),
            |met| Planted {
                index,
                psn,
                packets: send.packets(request.opcode, request.length()),
                met,
            },
        );
        let status = causes.planted(index);
        send.causes = Some(causes);
        status
    }

    /// Records that a rule has fired, and raises its event, if the request with this index ends as
    /// planted.
    #[cold]
    pub(in crate::qp) fn note_planted(&self, send: &SendQueue, index: u64, status: ibv_wc_status) {
        let Some(causes) = &send.causes else {
            return;
        };
        if let Some(planted) = causes.planted(index)
            && code_of(planted) == status
        {
            causes.ended(index);
            if planted == Status::Fatal {
                self.raise(IBV_EVENT_QP_FATAL);
            }
        }
    }

    /// Returns whether a request can end with a status, on its path and with the queue pair's
    /// attributes.
    fn can_end(&self, send: &SendQueue, request: &SendRequest<'_>, status: Status) -> bool {
        let is_reliable = self.is_reliable();
        let is_sent = request_kind(request.opcode);
        let by_packets = send.packets.is_some();
        // The responder finds the fault that the request's record names.
        let by_record = self.kind == IBV_QPT_RC && !by_packets && is_sent.is_some();
        let is_send = is_sent == Some(Kind::Send);
        match status {
            Status::LocalQpOperation => true,
            Status::Flush | Status::Fatal => is_reliable,
            Status::WindowBind => is_sent.is_none(),
            Status::LocalLength => is_sent.is_some(),
            Status::LocalProtection => {
                is_sent.is_some() && !request.is_inline() && request.length() > 0
            }
            // The key of an operation on 0 bytes is not checked.
            Status::RemoteAccess => {
                let length = match request.opcode {
                    IBV_WR_FLUSH => request.flush_length(),
                    _ => request.length(),
                };
                is_reliable && is_sent.is_some() && !is_send && length > 0
            }
            Status::RemoteInvalidRequest => {
                by_record || (by_packets && self.kind == IBV_QPT_RC && is_sent.is_some())
            }
            Status::RemoteOperation => by_record,
            Status::RnrRetryExceeded => {
                let takes = is_send || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
                by_record && takes && !send.rnr_retries.is_infinite()
            }
            Status::RetryExceeded => is_reliable && is_sent.is_some() && send.gives_up(),
        }
    }

    /// Sends a request in which the responder finds a fault.
    fn ask_faulty(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        faulty: Faulty,
    ) -> Outcome {
        if let Some(outcome) = self.blocking_outcome(send, request) {
            return outcome;
        }
        if is_answered(request.opcode)
            && let Some(outcome) = self.hinders_fetch(send)
        {
            return outcome;
        }
        let channel = match self.take_channel(send, request) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        let answers = self.responder(send, &channel.peer, psn).is_some();
        let outcome = match self.local_fault_or(request, self.no_answer()) {
            Outcome::NoAnswer if answers => {
                let job = Job {
                    channel: &channel,
                    request,
                    index,
                    psn,
                };
                let header = faulty.emit(&self.route(send, psn));
                self.ask_header(send, &job, &channel, header, &[], 0)
            }
            outcome => outcome,
        };
        send.channel = Some(channel);
        outcome
    }
}

/// Returns the number of a status.
fn code_of(status: Status) -> ibv_wc_status {
    match status {
        Status::LocalLength => IBV_WC_LOC_LEN_ERR,
        Status::LocalQpOperation => IBV_WC_LOC_QP_OP_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::WindowBind => IBV_WC_MW_BIND_ERR,
        Status::Flush | Status::Fatal => IBV_WC_WR_FLUSH_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteOperation => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
    }
}

/// Returns whether a request with a status fails before it is sent.
fn is_local_failure(status: Status) -> bool {
    match status {
        Status::LocalLength
        | Status::LocalQpOperation
        | Status::LocalProtection
        | Status::WindowBind
        | Status::Flush
        | Status::Fatal => true,
        Status::RemoteAccess
        | Status::RemoteInvalidRequest
        | Status::RemoteOperation
        | Status::RetryExceeded
        | Status::RnrRetryExceeded => false,
    }
}

/// Returns the record of a request in which the responder finds the fault that is answered so.
fn faulty(request: &SendRequest<'_>, mtu: u32, status: Status) -> Option<Faulty> {
    let kind = request_kind(request.opcode)?;
    let is_send = kind == Kind::Send;
    let notifies = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    let early = notifies && takes_receive_before_key(request.length() as u32, mtu);
    let (fault, takes_receive) = match status {
        Status::RnrRetryExceeded => (Fault::ReceiverNotReady, false),
        Status::RemoteInvalidRequest if is_send => (Fault::ReceiveTooSmall, true),
        Status::RemoteInvalidRequest if kind == Kind::Atomic => (Fault::MisalignedAtomic, false),
        Status::RemoteInvalidRequest => (Fault::UnsupportedOpcode, false),
        Status::RemoteOperation if is_send => (Fault::ReceiveProtection, true),
        Status::RemoteOperation => (Fault::Operation, early),
        _ => return None,
    };
    Some(Faulty {
        fault,
        takes_receive,
    })
}

/// Returns the operation of an opcode, as rules name it.
fn operation_of(opcode: ibv_wr_opcode) -> Operation {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write,
        IBV_WR_RDMA_READ => Operation::Read,
        IBV_WR_ATOMIC_FETCH_AND_ADD => Operation::FetchAdd,
        IBV_WR_ATOMIC_CMP_AND_SWP => Operation::CompareSwap,
        IBV_WR_ATOMIC_WRITE => Operation::AtomicWrite,
        IBV_WR_FLUSH => Operation::Flush,
        IBV_WR_BIND_MW => Operation::Bind,
        IBV_WR_LOCAL_INV => Operation::Invalidate,
        _ => Operation::Send,
    }
}
