//! Execution of send requests: directly in the peer's memory where it can be reached, otherwise
//! through the channel.
//!
//! Order (architecture specification, 10.8.3): requests of a queue pair take effect in the order of
//! posting. Requests in the channel are served in order; direct operations happen at once. So while
//! a request of the queue pair is in flight in the channel, a later request goes through the
//! channel, too, or waits, even if it could be done directly.
//!
//! The direct path never refuses a request: one that its key, its range or the peer's queue pair
//! does not allow goes through the channel, and the responder refuses it as it would refuse a
//! packet.

mod answer;
mod atomic;
pub(super) mod causes;
mod datagram;
mod direct;
mod known_target;
pub(super) mod outcome;
mod parts;
mod plain;
mod read;
mod send;
mod write;

use crate::capture;
use crate::observed;
use crate::process::Outbound;
use crate::process::channel_ends::{Acknowledge, ChannelPush};
use crate::qp::Qp;
use crate::qp::ring_message::{Endpoint, Remote, Request, Route};
use crate::qp::send::{RequestProgress, SendQueue, SendRequest};
use crate::qp::terms::{answer_to, status_code};
use outcome::Outcome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::refusal;
use verbena_hca_shm::context_table::QpRecord;
use verbena_hca_shm::ring::Header;
use verbena_hca_shm::section::Section;
use verbena_transport::order::Start;
use verbena_transport::request::{Fence, check_message};
use verbena_transport::state::State;

/// Returns whether a request concerns local objects only, so that nothing is sent.
#[inline]
fn is_local(opcode: ibv_wr_opcode) -> bool {
    matches!(opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW)
}

/// A request with its context.
struct Job<'a> {
    channel: &'a Arc<Outbound>,
    request: &'a SendRequest<'a>,
    index: u64,
    psn: u32,
}

impl Qp {
    #[inline]
    pub(super) fn execute(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        if observed::is_any() {
            return self.execute_observed(send, request, index, psn, progress);
        }
        self.execute_request(send, request, index, psn, progress)
    }

    #[cold]
    #[inline(never)]
    fn execute_observed(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        let outcome = if !self.passes_fabric(request) {
            self.local_fault_or(request, Outcome::Done)
        } else if capture::is_on() {
            self.execute_and_capture(send, request, index, psn, progress)
        } else {
            self.execute_request(send, request, index, psn, progress)
        };
        if matches!(outcome, Outcome::Done | Outcome::Sent | Outcome::NoAnswer) {
            self.count(send, request, index);
        }
        outcome
    }

    #[inline]
    pub(super) fn execute_request(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        match send.is_off_path {
            true => self.execute_off_path(send, request, index, psn, progress),
            false => self.execute_on_path(send, request, index, psn, progress),
        }
    }

    /// Executes a request of a queue pair without rules whose port is up.
    #[inline]
    fn execute_on_path(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Outcome {
        if is_local(request.opcode) {
            return match self.is_held_by_fence(send, request) {
                true => Outcome::Order,
                false if request.opcode == IBV_WR_BIND_MW => self.bind_window(send, request),
                false => self.local_invalidate(send, request),
            };
        }
        if let Some(outcome) = self.blocking_outcome(send, request) {
            return outcome;
        }
        if self.kind == IBV_QPT_UD {
            return self.send_datagram(send, request, psn);
        }
        if send.packets.is_some() {
            return self.execute_by_packets(send, request);
        }
        let channel = match self.take_channel(send, request) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        let job = Job {
            channel: &channel,
            request,
            index,
            psn,
        };
        let outcome = match request.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV => {
                self.send_message(send, &job, progress)
            }
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => self.write(send, &job, progress),
            IBV_WR_RDMA_READ => self.read(send, &job),
            IBV_WR_FLUSH => self.flush(send, &job),
            _ => self.atomic(send, &job),
        };
        send.channel = Some(channel);
        outcome
    }

    /// Returns the outcome of a request that cannot be sent for now, because of its fence, or ever,
    /// because of its length. Other conditions are checked when a request starts to which they
    /// apply.
    #[inline]
    fn blocking_outcome(&self, send: &SendQueue, request: &SendRequest<'_>) -> Option<Outcome> {
        if self.is_held_by_fence(send, request) {
            return Some(Outcome::Order);
        }
        let checked = check_message(request.length(), crate::device::MAX_MESSAGE);
        checked
            .err()
            .map(|status| Outcome::Failed(status_code(status)))
    }

    #[inline]
    fn is_held_by_fence(&self, send: &SendQueue, request: &SendRequest<'_>) -> bool {
        request.flags & IBV_SEND_FENCE != 0
            && send
                .outstanding
                .may_start(answer_to(request.opcode), Fence::On)
                == Start::AfterAll
    }

    /// Takes the channel to the peer out of the send queue. Taken rather than cloned: reference
    /// counting costs as much as checking a key.
    #[inline]
    fn take_channel(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
    ) -> Result<Arc<Outbound>, Outcome> {
        let gone = |channel: &Arc<Outbound>| channel.peer.is_dead();
        if send.channel.as_ref().is_none_or(gone) {
            // A dead peer is treated like one whose packets are lost, with the same timeout:
            // programs exit while peers still have unanswered requests, and rely on an adapter's
            // retries.
            if send.channel.is_some() && self.kind != IBV_QPT_UC {
                return Err(self.local_fault_or(request, Outcome::NoAnswer));
            }
            send.channel = self.process.outbound_to_number(send.destination);
        }
        let connect = || self.local_fault_or(request, Outcome::Connect(send.destination));
        send.channel.take().ok_or_else(connect)
    }

    fn local_invalidate(&self, send: &SendQueue, request: &SendRequest<'_>) -> Outcome {
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        let window = self.memory.windows().find(request.immediate);
        if window.is_none() {
            refusal::note(format_args!(
                "rkey {:#x} belongs to no window: use mw->rkey as it is after the bind",
                request.immediate
            ));
        }
        let invalidated = window
            .map(|window| window.invalidate(request.immediate, self.pd_number(), self.number));
        match invalidated {
            Some(Ok(())) => Outcome::Done,
            _ => Outcome::Failed(IBV_WC_MW_BIND_ERR),
        }
    }

    fn bind_window(&self, send: &SendQueue, request: &SendRequest<'_>) -> Outcome {
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        let Some(bind) = request.bind else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let owner = if bind.window.kind() == IBV_MW_TYPE_2 {
            self.number
        } else {
            0
        };
        if bind.window.pd() != self.pd_number() {
            refusal::note(format_args!(
                "the window belongs to another protection domain than the queue pair: create both \
                 in one"
            ));
            return Outcome::Failed(IBV_WC_MW_BIND_ERR);
        }
        match bind.window.bind(
            bind.key,
            bind.region,
            bind.address,
            bind.length,
            bind.access,
            owner,
        ) {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Failed(IBV_WC_MW_BIND_ERR),
        }
    }

    /// Resolves the local buffers of a request, which must allow `access`.
    #[inline]
    pub(in crate::qp) fn runs<'a>(
        &'a self,
        section: &'a Section<'_>,
        request: &SendRequest<'_>,
        access: u32,
    ) -> Result<Runs<'a>, Outcome> {
        if request.flags & IBV_SEND_INLINE != 0 {
            return Ok(Runs::inline(request.sges));
        }
        Runs::resolve(
            section,
            &self.memory,
            self.pd_number(),
            request.sges,
            access,
        )
        .map_err(|_| Outcome::Failed(IBV_WC_LOC_PROT_ERR))
    }

    /// Returns `outcome` for a request that cannot be sent now, or the local fault if its buffers
    /// cannot be read: local faults come first, because such a request is never sent.
    #[cold]
    fn local_fault_or(&self, request: &SendRequest<'_>, outcome: Outcome) -> Outcome {
        let access = match request.opcode {
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                IBV_ACCESS_LOCAL_WRITE
            }
            _ => 0,
        };
        let section = self.memory.own_marks().enter(0);
        match self.runs(&section, request, access) {
            Ok(_) => outcome,
            Err(fault) => fault,
        }
    }

    /// Returns the record of the peer's queue pair if that is in a state to answer ours, and
    /// expects the packet `psn`. None means that the packet counts as lost. Called inside a
    /// section, or as a preliminary check.
    #[inline]
    pub(in crate::qp) fn responder<'a>(
        &self,
        send: &mut SendQueue,
        peer: &'a Peer,
        psn: u32,
    ) -> Option<&'a QpRecord> {
        let record = peer.contexts.queue_pair(send.destination);
        if !self.is_answered_by(peer, record) {
            return None;
        }
        let incarnation = record.incarnation.load(Ordering::Relaxed);
        if send.responder != Some(incarnation) {
            // The interfaces of the two do not match, so packets would not arrive.
            if record.interfaces.load(Ordering::Relaxed) != send.interfaces.turned().as_word() {
                return None;
            }
            if !self.is_in_partition_of(record) {
                return None;
            }
            // The first request of this connection: a reliable responder drops all packets except
            // the expected one; an unreliable one accepts any that begins a message (architecture
            // specification, 9.8.2.2).
            if self.kind != IBV_QPT_UC && send.expected_psn(incarnation, record) != psn {
                return None;
            }
            send.responder = Some(incarnation);
        }
        Some(record)
    }

    /// Like `responder`, for a message in parts. A responder that was reset has lost the parts that
    /// it had, so a reliable message begins anew; the rest of an unreliable one is dropped there.
    #[inline]
    fn responder_of_parts<'a>(
        &self,
        send: &mut SendQueue,
        peer: &'a Peer,
        psn: u32,
        progress: &mut RequestProgress,
    ) -> Option<&'a QpRecord> {
        let before = send.responder;
        let record = self.responder(send, peer, psn)?;
        if send.responder != before && self.is_reliable() {
            *progress = RequestProgress::default();
        }
        Some(record)
    }

    /// Returns whether the record is of a queue pair of a live peer that is connected to ours and
    /// can receive.
    #[inline]
    pub(in crate::qp) fn is_answered_by(&self, peer: &Peer, record: &QpRecord) -> bool {
        let state = record.state.load(Ordering::SeqCst);
        let wanted = if self.kind == IBV_QPT_XRC_SEND {
            IBV_QPT_XRC_RECV
        } else {
            self.kind
        };
        state & (QpRecord::PRESENT | QpRecord::CUT) == QpRecord::PRESENT
            && State::code_responds(state & 0xff)
            && state >> 8 & 0xff == wanted
            && record.destination.load(Ordering::Relaxed) == self.number
            && !peer.is_ending()
    }

    /// Returns the outcome of a request that the peer does not answer.
    fn no_answer(&self) -> Outcome {
        match self.is_reliable() {
            true => Outcome::NoAnswer,
            // The requester is not informed.
            false => Outcome::Done,
        }
    }

    #[inline]
    pub(in crate::qp) fn route(&self, send: &SendQueue, psn: u32) -> Route {
        Route {
            destination: Endpoint {
                number: send.destination,
                incarnation: send.responder.unwrap_or(0),
            },
            source: Endpoint {
                number: self.number,
                incarnation: self.incarnation(),
            },
            psn,
        }
    }

    /// Returns the responder's memory that a request names, from `offset` on, for a message of
    /// `length` bytes.
    fn remote(&self, request: &SendRequest<'_>, offset: u64, length: u64) -> Remote {
        Remote {
            address: request.remote_address.wrapping_add(offset),
            key: request.rkey,
            length: length as u32,
            shared: (self.kind == IBV_QPT_XRC_SEND).then_some(request.srq),
        }
    }

    /// Puts a request of one record into the channel `via`. The request concerns `bytes` of user
    /// data.
    fn ask(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        request: Request,
        payload: &[u8],
        bytes: u64,
    ) -> Outcome {
        let header = request.emit(&self.route(send, job.psn));
        self.ask_header(send, job, via, header, payload, bytes)
    }

    /// As [`Qp::ask`], for an encoded request.
    #[inline]
    fn ask_header(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        payload: &[u8],
        bytes: u64,
    ) -> Outcome {
        let acknowledge = Acknowledge {
            index: job.index,
            epoch: send.epoch,
        };
        let pushed = via.push(self, header, payload.len(), Some(acknowledge), |target| {
            // SAFETY: the ring provides space for the payload.
            unsafe { target.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) };
            Ok(())
        });
        self.pushed(via, pushed, bytes)
    }

    #[inline]
    fn pushed(&self, via: &Arc<Outbound>, pushed: ChannelPush, bytes: u64) -> Outcome {
        match pushed {
            ChannelPush::Stored => {
                self.process.counters.shard().count_stored(bytes);
                via.peer.wake();
                Outcome::Sent
            }
            ChannelPush::Full => {
                via.peer.wake();
                Outcome::NoRoom
            }
            ChannelPush::Unreadable => Outcome::Failed(IBV_WC_LOC_PROT_ERR),
            // The peer has died since the check.
            ChannelPush::Closed => self.no_answer(),
        }
    }
}
