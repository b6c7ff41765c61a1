//! RDMA writes, with and without immediate data.

use super::Job;
use super::direct::{Direct, Span};
use super::outcome::Outcome;
use super::send::MessageTarget;
use crate::qp::Qp;
use crate::qp::ring_message::{Body, Extra, Message, Request, Write};
use crate::qp::send::{RequestProgress, SendQueue};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::peer::Direction;
use verbena_wire::opcode::Place;

impl Qp {
    pub(super) fn write(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        progress: &mut RequestProgress,
    ) -> Outcome {
        if progress.is_placed && self.may_still_write(send, job) {
            return self.notice(send, job);
        }
        progress.is_placed = false;
        let ordered = send.has_outstanding() || progress.bytes > 0;
        if ordered && progress.bytes == 0 && self.write_waits(send, job) {
            return Outcome::Order;
        }
        if progress.bytes == 0 {
            self.process.counters.shard().write_operations.add(1);
        }
        let notifies = job.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if !ordered {
            match self.transfer(send, job, IBV_ACCESS_REMOTE_WRITE, Direction::Store) {
                Direct::Done if notifies => {
                    progress.is_placed = true;
                    return self.notice(send, job);
                }
                Direct::Done => return Outcome::Done,
                Direct::NoAnswer => return self.no_answer(),
                Direct::Failed(status) => return Outcome::Failed(status),
                Direct::ThroughChannel => (),
            }
        }
        let responder = self.responder_of_parts(send, &job.channel.peer, job.psn, progress);
        if responder.is_none() {
            return self.local_fault_or(job.request, self.no_answer());
        }
        send.lane = 0;
        let request = job.request;
        // The receive of an XRC write may be in a third process, which is notified when the bytes
        // are in place.
        let immediate = (notifies && self.kind != IBV_QPT_XRC_SEND).then_some(request.immediate);
        let total = request.length();
        self.send_parts(send, job, job.channel, progress, |place, offset| {
            Request::Write(Write {
                place,
                remote: self.remote(request, offset, total),
                immediate,
                solicited: request.is_solicited(),
            })
        })
    }

    /// Returns whether a write whose bytes are placed is still allowed while its notification waits
    /// for a receive: a repeated request is checked again. For XRC the responder has placed and
    /// acknowledged the bytes itself.
    fn may_still_write(&self, send: &mut SendQueue, job: &Job<'_>) -> bool {
        if self.kind == IBV_QPT_XRC_SEND {
            return true;
        }
        let section = job.channel.section(job.request.rkey);
        let span = Span::whole(job.request.length(), Direction::Store);
        self.right(&section, send, job, IBV_ACCESS_REMOTE_WRITE, span)
            .is_ok()
    }

    /// Returns whether a write waits until no request is in flight. An XRC write does, because its
    /// messages use another channel.
    fn write_waits(&self, send: &mut SendQueue, job: &Job<'_>) -> bool {
        self.kind == IBV_QPT_XRC_SEND
            || self.better_waits(send, job, IBV_ACCESS_REMOTE_WRITE, Direction::Store)
    }

    /// Notifies the receive queue that the bytes of a write with immediate data are in place.
    fn notice(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let Some(responder) = self.responder(send, &job.channel.peer, job.psn) else {
            return self.no_answer();
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
        let message = Message {
            place: Place::Only,
            total: job.request.length() as u32,
            body: Body::InPlace,
            extra: Extra::Immediate(job.request.immediate),
            solicited: job.request.is_solicited(),
            shared: self.shared_queue(job.request, responder),
        };
        self.ask(send, job, via, Request::Message(message), &[], 0)
    }
}
