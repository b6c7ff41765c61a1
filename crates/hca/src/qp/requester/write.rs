//! RDMA writes, with and without immediate data.

use super::direct::{Direct, Span};
use super::send::Receiver;
use super::{Job, Outcome};
use crate::path::Direction;
use crate::qp::Qp;
use crate::qp::message::{Body, Extra, Message, Part, Request, Write};
use crate::qp::send::{Advance, SendQueue};
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    pub(super) fn write(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        advance: &mut Advance,
    ) -> Outcome {
        if advance.is_placed && self.may_still_write(send, job) {
            return self.notice(send, job);
        }
        advance.is_placed = false;
        let ordered = send.has_outstanding() || advance.bytes > 0;
        if ordered && advance.bytes == 0 && self.write_waits(send, job) {
            return Outcome::Order;
        }
        if advance.bytes == 0 {
            self.process.counters.shard().write_operations.add(1);
        }
        let notifies = job.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if !ordered {
            match self.transfer(send, job, IBV_ACCESS_REMOTE_WRITE, Direction::Store) {
                Direct::Done if notifies => {
                    advance.is_placed = true;
                    return self.notice(send, job);
                }
                Direct::Done => return Outcome::Done,
                Direct::Lost => return self.lost(),
                Direct::Failed(status) => return Outcome::Failed(status),
                Direct::ThroughChannel => (),
            }
        }
        if self.responder(send, &job.channel.peer, job.psn).is_none() {
            return self.unless_unreadable(job.request, self.lost());
        }
        send.lane = 0;
        let request = job.request;
        // The receive of an XRC write may be in a third process: that one is told when the bytes are in place.
        let immediate = (notifies && self.kind != IBV_QPT_XRC_SEND).then_some(request.immediate);
        let total = request.length();
        self.send_parts(send, job, job.channel, advance, |part, offset| {
            Request::Write(Write {
                part,
                remote: self.remote(request, offset, total),
                immediate,
                solicited: request.is_solicited(),
            })
        })
    }

    /// Whether the right to what a write has placed holds while its notice waits for a receive: one that is sent again is
    /// judged again. The bytes of an XRC write are the responder's business, and have been acknowledged.
    fn may_still_write(&self, send: &mut SendQueue, job: &Job<'_>) -> bool {
        if self.kind == IBV_QPT_XRC_SEND {
            return true;
        }
        let section = job.channel.section(job.request.rkey);
        let span = Span::whole(job.request.length(), Direction::Store);
        self.right(&section, send, job, IBV_ACCESS_REMOTE_WRITE, span)
            .is_ok()
    }

    /// Whether a write waits until nothing is on its way any more. One of XRC does: its messages go through another channel.
    fn write_waits(&self, send: &mut SendQueue, job: &Job<'_>) -> bool {
        self.kind == IBV_QPT_XRC_SEND
            || self.better_waits(send, job, IBV_ACCESS_REMOTE_WRITE, Direction::Store)
    }

    /// The bytes of a write with immediate are in place: tells the receive queue.
    fn notice(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let Some(responder) = self.responder(send, &job.channel.peer, job.psn) else {
            return self.lost();
        };
        let shared;
        let via = match self.receiver(send, job) {
            Ok(Receiver::QueuePair) => job.channel,
            Ok(Receiver::Shared(owner)) => {
                shared = owner;
                &shared
            }
            Err(outcome) => return outcome,
        };
        let message = Message {
            part: Part::ONLY,
            total: job.request.length() as u32,
            body: Body::InPlace,
            extra: Extra::Immediate(job.request.immediate),
            solicited: job.request.is_solicited(),
            shared: self.shared_queue(job.request, responder),
        };
        self.ask(send, job, via, Request::Message(message), &[], 0)
    }
}
