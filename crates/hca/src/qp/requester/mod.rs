//! Executing a send request: by ourselves in the peer's memory where we can get there, through the channel else.
//!
//! Order (architecture specification, 10.8.3): requests of a queue pair take effect in the order of posting. What goes
//! through the channel is served in order; what we do ourselves happens at once. So while anything of the queue pair is
//! on its way through the channel, a later request that we could do ourselves goes through the channel too, or waits.

mod answer;
mod fetch;
mod send;
mod write;

use crate::errno::Errno;
use crate::memory::place::{Claim, Place, Refusal, grant};
use crate::memory::transfer::{Granted, Runs};
use crate::path::Peer;
use crate::process::link::{Acknowledge, Outbound, Pushed};
use crate::qp::Qp;
use crate::qp::message::*;
use crate::qp::send::{SendQueue, SendRequest};
use crate::shm::desk::QpRecord;
use crate::shm::ring::Header;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is on its way; the responder's position or answer completes it.
    Sent,
    /// It must wait for those before it.
    Order,
    /// The channel is full; it will be woken.
    NoRoom,
    /// There is no channel to the owner of this number yet.
    Seek(u32),
    /// Nobody is there to answer.
    Lost,
    /// It failed with this status.
    Failed(ibv_wc_status),
}

/// What there is to do when an operation cannot be done by ourselves.
enum Direct {
    Finished(Outcome),
    ThroughChannel,
}

impl Qp {
    #[inline]
    pub(super) fn execute(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
        psn: u32,
        progress: &mut u64,
    ) -> Outcome {
        if request.flags & IBV_SEND_FENCE != 0 && send.reads_in_flight > 0 {
            return Outcome::Order;
        }
        match request.opcode {
            IBV_WR_LOCAL_INV => return self.local_invalidate(send, request),
            IBV_WR_BIND_MW => return self.bind_window(send, request),
            _ => (),
        }
        if self.kind == IBV_QPT_UD {
            return self.send_datagram(request, psn);
        }
        if send
            .channel
            .as_ref()
            .is_none_or(|channel| channel.peer.is_dead())
        {
            if send.channel.is_some() && self.kind != IBV_QPT_UC {
                return Outcome::Failed(IBV_WC_RETRY_EXC_ERR);
            }
            send.channel = self.process.outbound_to_number(send.destination);
            send.verified = false;
        }
        // Taken, not cloned: counting its users up and down costs as much as checking a key.
        let Some(channel) = send.channel.take() else {
            return if self.kind == IBV_QPT_UC {
                Outcome::Done
            } else {
                Outcome::Seek(send.destination)
            };
        };
        let job = Job {
            channel: &channel,
            request,
            index,
            psn,
        };
        let outcome = match request.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV => {
                channel.foresee();
                self.process.counters.shard().send_operations.add(1);
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

    fn local_invalidate(&self, send: &SendQueue, request: &SendRequest<'_>) -> Outcome {
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        let window = self.process.windows.find(request.immediate);
        let (pd, number) = (self.pd_number(), self.number);
        match window.map(|window| window.invalidate(request.immediate, pd, number)) {
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

    /// Local buffers of a request.
    pub(super) fn runs(&self, request: &SendRequest<'_>, access: u32) -> Result<Runs, Outcome> {
        if request.flags & IBV_SEND_INLINE != 0 {
            return Ok(Runs::inline(request.sges));
        }
        Runs::resolve(&self.process, self.pd_number(), request.sges, access)
            .map_err(|_| Outcome::Failed(IBV_WC_LOC_PROT_ERR))
    }

    /// What a request carries to the peer, and how many bytes that are.
    fn payload(&self, request: &SendRequest<'_>) -> Result<(Runs, u64), Outcome> {
        let runs = self.runs(request, 0)?;
        let total = runs.total();
        match total > u64::from(crate::device::MAX_MESSAGE) {
            true => Err(Outcome::Failed(IBV_WC_LOC_LEN_ERR)),
            false => Ok((runs, total)),
        }
    }

    /// Whether the peer's queue pair answers ours. Inside an access section, or as a first look.
    #[inline]
    fn responder<'a>(&self, send: &mut SendQueue, peer: &'a Peer) -> Result<&'a QpRecord, Outcome> {
        let record = peer.desk.queue_pair(send.destination);
        let state = record.state.load(Ordering::SeqCst);
        let lost = if self.kind == IBV_QPT_UC {
            Outcome::Done
        } else {
            Outcome::Lost
        };
        if state & QpRecord::PRESENT == 0 {
            return Err(lost);
        }
        let kind = state >> 8 & 0xff;
        let wanted = if self.kind == IBV_QPT_XRC_SEND {
            IBV_QPT_XRC_RECV
        } else {
            self.kind
        };
        let answers = matches!(
            state & 0xff,
            IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE
        );
        if !answers || kind != wanted || record.destination.load(Ordering::Relaxed) != self.number {
            return Err(lost);
        }
        if !send.verified {
            // A responder that expects another packet than our first one drops all of them.
            if record.receive_psn.load(Ordering::Relaxed) != send.initial_psn {
                return Err(lost);
            }
            send.verified = true;
        }
        Ok(record)
    }

    /// What records of all kinds of requests say: from whom, to whom, which packet, and that there are no others.
    fn header(&self, kind: u8, send: &SendQueue, job: &Job<'_>) -> Header {
        Header {
            kind,
            flags: FIRST | LAST,
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            ..Header::default()
        }
    }

    /// Puts a request that is one record into the channel `via`. It asks for `bytes` of the user's data.
    fn ask(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        payload: &[u8],
        bytes: u64,
    ) -> Outcome {
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = via.push(header, payload.len(), acknowledge, |target| {
            // SAFETY: the ring gave room for the payload.
            unsafe { target.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) }
        });
        self.pushed(via, pushed, bytes)
    }

    #[inline]
    pub(super) fn pushed(
        self: &Arc<Qp>,
        via: &Arc<Outbound>,
        pushed: Pushed,
        bytes: u64,
    ) -> Outcome {
        let closed = match pushed {
            Pushed::Stored => false,
            Pushed::Closed => true,
            Pushed::Full => {
                if via.starve(self) {
                    via.peer.wake();
                    return Outcome::NoRoom;
                }
                true
            }
        };
        if closed {
            // The peer died since we looked. An unreliable requester never learns.
            return match self.kind {
                IBV_QPT_UC | IBV_QPT_UD => Outcome::Done,
                _ => Outcome::Failed(IBV_WC_RETRY_EXC_ERR),
            };
        }
        self.process.counters.shard().operation_bytes.add(bytes);
        self.process.counters.shard().ring_path_operations.add(1);
        self.process.counters.shard().ring_path_bytes.add(bytes);
        via.peer.wake();
        Outcome::Sent
    }

    /// The protection domain that the peer's keys must be of: the responder's, or for XRC, whose responder has none,
    /// that of the shared receive queue which the request names (architecture specification, annex A14). None when it
    /// names none: then the responder has to see whether the key is of any that it has.
    fn remote_domain(
        &self,
        peer: &Peer,
        request: &SendRequest<'_>,
        responder: &QpRecord,
    ) -> Option<u32> {
        if self.kind != IBV_QPT_XRC_SEND {
            return Some(responder.pd.load(Ordering::Relaxed));
        }
        let xrcd = responder.xrcd.load(Ordering::Relaxed);
        peer.desk.queue_pair(request.srq).domain_of_srq(xrcd)
    }

    /// Does an operation in the peer's memory by ourselves, if all of it can be reached. Inside an access section.
    #[inline]
    fn reach(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        length: u64,
        right: u32,
        operate: impl FnOnce(&Peer, Granted<'_>) -> crate::errno::Result<()>,
    ) -> Direct {
        let peer = &job.channel.peer;
        let responder = match self.responder(send, peer) {
            Ok(record) => record,
            Err(outcome) => return Direct::Finished(outcome),
        };
        if responder.access.load(Ordering::Relaxed) & right == 0 {
            return Direct::Finished(self.violate(send, job, IBV_WC_REM_INV_REQ_ERR));
        }
        if length == 0 {
            // The key of an operation on nothing is not checked (architecture specification, C9-88).
            return Direct::Finished(Outcome::Done);
        }
        let Some(pd) = self.remote_domain(peer, job.request, responder) else {
            return Direct::ThroughChannel;
        };
        let Ok(place) = remote_place(send, job, pd, right, length) else {
            return Direct::Finished(self.violate(send, job, IBV_WC_REM_ACCESS_ERR));
        };
        let Some(granted) = Granted::of(peer, place) else {
            return Direct::ThroughChannel;
        };
        match operate(peer, granted) {
            Ok(()) => {
                self.count_direct(length, granted.is_through_kernel(peer));
                Direct::Finished(Outcome::Done)
            }
            Err(Errno(libc::ESRCH)) => {
                peer.declare_dead();
                Direct::Finished(Outcome::Failed(IBV_WC_RETRY_EXC_ERR))
            }
            Err(Errno::EOPNOTSUPP | Errno::EPERM) => Direct::ThroughChannel,
            Err(_) => Direct::Finished(self.violate(send, job, IBV_WC_REM_OP_ERR)),
        }
    }

    #[inline]
    fn count_direct(&self, length: u64, through_kernel: bool) {
        let counters = self.process.counters.shard();
        counters.operation_bytes.add(length);
        if !through_kernel {
            counters.mapped_path_operations.add(1);
            counters.mapped_path_bytes.add(length);
        } else {
            counters.cma_path_operations.add(1);
            counters.cma_path_bytes.add(length);
        }
    }

    /// We found that the responder does not allow what was asked. A responder that had been asked would have gone to
    /// the error state, so it is told.
    fn violate(self: &Arc<Qp>, send: &SendQueue, job: &Job<'_>, status: ibv_wc_status) -> Outcome {
        if self.kind == IBV_QPT_UC {
            return Outcome::Done;
        }
        let header = Header {
            immediate: status,
            ..self.header(VIOLATION, send, job)
        };
        if job.channel.push(header, 0, Acknowledge::Nothing, |_| ()) == Pushed::Stored {
            job.channel.peer.wake();
        }
        Outcome::Failed(status)
    }
}

/// A request and what it needs.
struct Job<'a> {
    channel: &'a Arc<Outbound>,
    request: &'a SendRequest<'a>,
    index: u64,
    psn: u32,
}

/// The place in the peer's memory that a request names, if its key gives the right to it. Inside an access section,
/// or as a first look.
#[inline]
fn remote_place<'a>(
    send: &SendQueue,
    job: &'a Job<'_>,
    pd: u32,
    right: u32,
    length: u64,
) -> Result<Place<'a>, Refusal> {
    let claim = Claim {
        key: job.request.rkey,
        pd,
        queue_pair: send.destination,
        access: right,
    };
    let record = job.channel.peer.desk.key(job.request.rkey);
    grant(record, claim, job.request.remote_address, length)
}

pub(super) fn solicited(request: &SendRequest<'_>) -> u8 {
    if request.flags & IBV_SEND_SOLICITED != 0 {
        SOLICITED
    } else {
        0
    }
}
