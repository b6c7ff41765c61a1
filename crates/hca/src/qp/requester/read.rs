//! RDMA reads, and flushes, which only wait for earlier requests.

use super::Job;
use super::direct::Direct;
use super::outcome::{Outcome, beyond_limit};
use crate::qp::Qp;
use crate::qp::ring_message::{Remote, Request};
use crate::qp::send::{SendQueue, SendRequest};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::peer::Direction;
use verbena_transport::order::check_resources;

impl Qp {
    pub(super) fn read(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        if let Some(outcome) = self.hinders_fetch(send) {
            return outcome;
        }
        let is_behind = send.has_outstanding();
        if is_behind && self.better_waits(send, job, IBV_ACCESS_REMOTE_READ, Direction::Load) {
            return Outcome::Order;
        }
        self.process.counters.shard().read_operations.add(1);
        if !is_behind && self.fetch_allowed(send, job) {
            match self.transfer(send, job, IBV_ACCESS_REMOTE_READ, Direction::Load) {
                Direct::Done => return Outcome::Done,
                Direct::NoAnswer => return Outcome::NoAnswer,
                Direct::Failed(status) => return Outcome::Failed(status),
                Direct::ThroughChannel => (),
            }
        }
        self.ask_remote(
            send,
            job,
            Request::Read,
            job.request.length(),
            IBV_ACCESS_LOCAL_WRITE,
        )
    }

    /// Executes work request `index`, a read within the peer's memory, while no earlier request is
    /// in flight. Returns None if it must take the general path, which then reads all bytes anew.
    pub(in crate::qp) fn read_plain(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
    ) -> Option<()> {
        if self.hinders_fetch(send).is_some() {
            return None;
        }
        let channel = send.channel.take()?;
        let job = Job {
            channel: &channel,
            request,
            index,
            psn,
        };
        let (access, direction) = (IBV_ACCESS_REMOTE_READ, Direction::Load);
        let is_done = !channel.peer.is_dead()
            && self.fetch_allowed(send, &job)
            && self.transfer(send, &job, access, direction) == Direct::Done;
        send.channel = Some(channel);
        if is_done {
            self.process.counters.shard().read_operations.add(1);
        }
        is_done.then_some(())
    }

    pub(super) fn flush(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        if let Some(outcome) = self.hinders_fetch(send) {
            return outcome;
        }
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        // Bytes stored directly are already in place. The responder decides whether the flush is
        // allowed; only a program that waits for its bytes anyway waits for that answer.
        let flush = job.request.flush();
        let length = job.request.flush_length();
        self.ask_remote(send, job, |remote| Request::Flush(remote, flush), length, 0)
    }

    /// Returns the outcome of a read or an atomic that cannot be sent through a channel now. XRC
    /// has several channels, without a common order.
    pub(super) fn hinders_fetch(&self, send: &SendQueue) -> Option<Outcome> {
        let waits = self.kind == IBV_QPT_XRC_SEND && send.has_outstanding();
        beyond_limit(&send.outstanding).or(waits.then_some(Outcome::Order))
    }

    /// Returns whether the responder accepts reads and atomics.
    pub(super) fn fetch_allowed(&self, send: &mut SendQueue, job: &Job<'_>) -> bool {
        use std::sync::atomic::Ordering;
        self.responder(send, &job.channel.peer, job.psn)
            .is_none_or(|record| check_resources(record.rd_atomic.load(Ordering::Relaxed)).is_ok())
    }

    /// Sends a request for a range of the responder's memory.
    fn ask_remote(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        request: impl Fn(Remote) -> Request,
        length: u64,
        local: u32,
    ) -> Outcome {
        {
            let section = job.channel.section(0);
            if let Err(outcome) = self.runs(&section, job.request, local) {
                return outcome;
            }
        }
        if self.responder(send, &job.channel.peer, job.psn).is_none() {
            return Outcome::NoAnswer;
        }
        send.lane = 0;
        let remote = self.remote(job.request, 0, length);
        self.ask(send, job, job.channel, request(remote), &[], 0)
    }
}
