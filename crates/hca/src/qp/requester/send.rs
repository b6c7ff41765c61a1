//! Messages: copied through the channel, or fetched from the requester's buffers where the
//! responder can reach them.

use super::Job;
use super::outcome::Outcome;
use crate::process::Outbound;
use crate::process::channel_ends::Acknowledge;
use crate::qp::Qp;
use crate::qp::ring_message::{Body, Extra, Message, Request, SharedQueue, Source};
use crate::qp::send::{RequestProgress, SendQueue, SendRequest};
use crate::qp::terms::status_code;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::peer::{PULL_ANY, PULL_ARENA};
use verbena_hca_memory::transfer::Runs;
use verbena_hca_shm::channel::MAX_PAYLOAD;
use verbena_hca_shm::context_table::QpRecord;
use verbena_transport::completion::Status;
use verbena_wire::opcode::Place;

/// Messages up to this many bytes are always copied through the channel: they take one or two of
/// its cache lines, and a fetched message takes one for its location.
pub(super) const COPIED: u64 = 64;
/// The same where the responder reaches the buffers only through the kernel, which costs more than
/// two copies.
const COPIED_RATHER_THAN_ASKING: u64 = 4096;

impl Qp {
    pub(super) fn send_message(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        progress: &mut RequestProgress,
    ) -> Outcome {
        job.channel.prefetch();
        let request = job.request;
        if request.opcode == IBV_WR_SEND_WITH_INV && !self.is_reliable() {
            // The service has no packet for it.
            return Outcome::Failed(status_code(Status::LocalQpOperation));
        }
        let Some(responder) = self.responder_of_parts(send, &job.channel.peer, job.psn, progress)
        else {
            return self.local_fault_or(request, self.no_answer());
        };
        let shared;
        let via = match self.receiver(send, job) {
            Ok(MessageTarget::QueuePair) => job.channel,
            Ok(MessageTarget::Shared(owner)) => {
                shared = owner;
                &shared
            }
            Err(outcome) => return outcome,
        };
        if progress.bytes == 0 {
            self.process.counters.shard().send_operations.add(1);
        }
        let message = Message {
            place: Place::Only,
            total: request.length() as u32,
            body: Body::Here,
            extra: match request.opcode {
                IBV_WR_SEND_WITH_IMM => Extra::Immediate(request.immediate),
                IBV_WR_SEND_WITH_INV => Extra::Invalidate(request.immediate),
                _ => Extra::None,
            },
            solicited: request.is_solicited(),
            shared: self.shared_queue(request, responder),
        };
        if progress.bytes == 0 && might_be_fetched(via, request) {
            let section = via.section(0);
            let runs = match self.runs(&section, request, 0) {
                Ok(runs) => runs,
                Err(outcome) => return outcome,
            };
            if can_be_fetched(via, &runs) {
                return self.send_sources(send, job, via, message);
            }
        }
        self.send_parts(send, job, via, progress, |place, _| {
            Request::Message(Message { place, ..message })
        })
    }

    /// Returns the receiver of a message. An XRC message goes to the owner of the shared receive
    /// queue, perhaps a third process. Messages to one process keep their order in its channel; two
    /// channels have no common order, so a message waits until none is in flight in another
    /// channel.
    pub(super) fn receiver(
        &self,
        send: &mut SendQueue,
        job: &Job<'_>,
    ) -> Result<MessageTarget, Outcome> {
        if self.kind != IBV_QPT_XRC_SEND {
            return Ok(MessageTarget::QueuePair);
        }
        let number = job.request.srq;
        let owner = match self.process.outbound_to_number(number) {
            Some(owner) => owner,
            None if self.process.membership.owner(number).is_some() => {
                return Err(self.local_fault_or(job.request, Outcome::Connect(number)));
            }
            // No such queue exists: the responder refuses the message.
            None => job.channel.clone(),
        };
        let lane = Arc::as_ptr(&owner) as usize;
        if send.has_outstanding() && send.lane != lane {
            return Err(Outcome::Order);
        }
        send.lane = lane;
        Ok(MessageTarget::Shared(owner))
    }

    pub(super) fn shared_queue(
        &self,
        request: &SendRequest<'_>,
        responder: &QpRecord,
    ) -> Option<SharedQueue> {
        (self.kind == IBV_QPT_XRC_SEND).then(|| SharedQueue {
            number: request.srq,
            domain: responder.xrcd.load(Ordering::Relaxed),
            rnr_timer: responder.rnr_timer.load(Ordering::Relaxed) as u8,
        })
    }

    fn send_sources(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        message: Message,
    ) -> Outcome {
        let sges = job.request.sges;
        let request = Request::Message(Message {
            body: Body::AtRequester,
            ..message
        });
        let length = sges.len() * Source::LENGTH;
        let acknowledge = Acknowledge {
            index: job.index,
            epoch: send.epoch,
        };
        let header = request.emit(&self.route(send, job.psn));
        let pushed = via.push(self, header, length, Some(acknowledge), |target| {
            for (index, sge) in sges.iter().enumerate() {
                let source = Source {
                    address: sge.addr,
                    length: sge.length,
                    key: sge.lkey,
                };
                let bytes = source.emit();
                // SAFETY: the ring provides space for `length` bytes, and `index` is below the
                // number of buffers.
                unsafe {
                    target
                        .add(index * Source::LENGTH)
                        .copy_from_nonoverlapping(bytes.as_ptr(), Source::LENGTH);
                }
            }
            Ok(())
        });
        self.pushed(via, pushed, job.request.length())
    }
}

pub(super) enum MessageTarget {
    /// The queue pair that ours is connected to.
    QueuePair,
    /// The owner of an XRC shared receive queue.
    Shared(Arc<Outbound>),
}

/// Returns whether the responder should fetch a message rather than receive a copy.
fn might_be_fetched(via: &Outbound, request: &SendRequest<'_>) -> bool {
    via.can_pull != 0
        && request.length() > COPIED
        && request.flags & IBV_SEND_INLINE == 0
        && request.sges.len() * Source::LENGTH <= MAX_PAYLOAD
}

/// Returns whether the responder can fetch the buffers itself, at a lower cost.
fn can_be_fetched(via: &Outbound, runs: &Runs<'_>) -> bool {
    (via.can_pull & PULL_ANY != 0
        && runs.total() > COPIED_RATHER_THAN_ASKING
        && runs.are_within_reach())
        || (via.can_pull & PULL_ARENA != 0 && runs.are_in_arena())
}
