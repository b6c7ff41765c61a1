//! A send queue of one request, for state machines whose packets are all made at once: those of a
//! datagram, or of a captured message.

use super::request::SendRequest;
use super::{SendQueue, packets};
use crate::qp::Qp;
use crate::qp::terms::answer_to;
use verbena_hca_memory::transfer::Runs;
use verbena_transport::completion::Status;
use verbena_transport::request::{SendRequest as Request, Sequence};
use verbena_transport::{LocalError, ReliableRequesterAccess, RequesterAccess};
use verbena_wire::Psn;

/// A request, its packets and its bytes.
pub(super) struct SingleRequest<'a> {
    pub(super) request: Request,
    sequence: Sequence,
    runs: &'a Runs<'a>,
    /// Once it is complete.
    pub(super) status: Option<Status>,
}

impl<'a> SingleRequest<'a> {
    /// Returns a request that begins with this PSN; None for a local one.
    pub(super) fn of(
        queue_pair: &Qp,
        send: &SendQueue,
        request: &SendRequest<'_>,
        psn: u32,
        runs: &'a Runs<'a>,
    ) -> Option<SingleRequest<'a>> {
        Some(SingleRequest {
            request: queue_pair.packet_request(request)?,
            sequence: Sequence {
                first: Psn::new(psn),
                packets: send.packets(request.opcode, request.length()),
                answer: answer_to(request.opcode),
            },
            runs,
            status: None,
        })
    }
}

impl RequesterAccess for SingleRequest<'_> {
    fn request(&self, at: usize) -> Option<Request> {
        (at == 0 && self.status.is_none()).then_some(self.request)
    }

    fn gather(&mut self, _: usize, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        packets::gather(self.runs, offset.into(), into)
    }

    fn complete(&mut self, status: Status) {
        self.status = Some(status);
    }
}

impl ReliableRequesterAccess for SingleRequest<'_> {
    fn sequence(&self, at: usize) -> Option<Sequence> {
        (at == 0 && self.status.is_none()).then_some(self.sequence)
    }

    fn scatter(&mut self, _: usize, _: u32, _: &[u8]) -> Result<(), LocalError> {
        // No answer is awaited.
        Err(LocalError)
    }
}
