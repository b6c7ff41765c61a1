//! Responder for requests that arrive through a shared-memory channel: the counterpart of a
//! responder that receives a message's packets (architecture specification, 9.7.4 and 9.9.3).
//!
//! No field of a record is trusted. The ring has checked lengths; numbers, keys and addresses are
//! checked here as a device checks those of a packet. A record that no correct peer sends ends the
//! connection.
//!
//! A request is acknowledged by the position in the ring. Any other answer is published on the
//! answer ring before the position passes the record (SYNC POINT answers in
//! [`crate::process::progress`]), so a record is only processed if there is space for an answer.

mod atomic;
mod datagram;
mod explain;
mod failure;
mod faulty;
mod fetch;
mod flush;
mod inbound_message;
pub mod lane;
pub mod message_state;
pub(super) mod packet_responder;
mod packets;
mod plain;
mod read;
mod write;

use crate::cq::Completion;
use crate::process::{Cq, Inbound, Process, QpCache, Serving};
use crate::qp::flush::Flush;
use crate::qp::ring_message::{Answer, Remote, Request, Route};
use crate::qp::terms::failed_receive;
use crate::qp::{Qp, ReceiveQueue};
use crate::srq::Srq;
use failure::Failure;
use message_state::XrcMessageStates;
pub use plain::serve_plain;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use verbena_abi::*;
use verbena_hca_memory::planted;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::resolve::{AccessRequest, ResolvedRange, grant};
use verbena_hca_os::lock::Guard;
use verbena_hca_os::refusal;
use verbena_hca_shm::context_table::QpRecord;
use verbena_hca_shm::ring::{Header, Record};
use verbena_hca_shm::section::Section;
use verbena_transport::completion::Status;
use verbena_transport::fault::Fault;

/// Result of serving a record.
pub enum Progress<'a> {
    /// Processed. The completion of the receive that it consumed, if any, must be pushed after the
    /// requester can see the acknowledgement: a program that answers a message may rely on the
    /// sender's completion being there first.
    Done(Option<Delivered<'a>>),
    /// Not processed, because answers need space; to be tried again.
    Blocked,
}

/// A completion that is ready to be pushed. The queue that its receive was taken from stays locked
/// until then, so that no later receive of that queue completes earlier, successfully or flushed,
/// and a reset finds it.
pub struct Delivered<'a> {
    cq: CompletionTarget<'a>,
    wc: ibv_wc,
    solicited: bool,
    _order: HeldLock<'a>,
}

/// The completion queue. Borrowed where possible: counting references would cost as much as
/// checking a key.
enum CompletionTarget<'a> {
    QueuePair(&'a Cq),
    Shared(Arc<Cq>),
}

/// Lock that is held until the completion is pushed.
enum HeldLock<'a> {
    QueuePair(#[expect(dead_code, reason = "held")] Guard<'a, ReceiveQueue>),
    Shared(#[expect(dead_code, reason = "held")] MutexGuard<'a, XrcMessageStates>),
}

impl Delivered<'_> {
    /// Makes the completion visible to the application.
    pub fn push(self) {
        let completion = Completion::received(self.wc);
        let cq: &Cq = match &self.cq {
            CompletionTarget::QueuePair(cq) => cq,
            CompletionTarget::Shared(cq) => cq,
        };
        cq.push(completion, self.solicited);
    }
}

/// Serves one record on the general path, to be called if [`serve_plain`] declines it.
pub fn serve<'a>(
    process: &'a Process,
    inbound: &'a Arc<Inbound>,
    serving: &mut Serving,
    qp_cache: &'a mut QpCache,
    record: &'a Record,
) -> Progress<'a> {
    // Answers without payload take one cell.
    if !serving.answers.has_room(&inbound.channel.answers(), 1) {
        return Progress::Blocked;
    }
    let call = Call {
        process,
        inbound,
        record,
        route: Route::of(&record.header),
    };
    let queue_pair = qp_cache.find(&process.queue_pairs, call.route.destination.number);
    call.serve_any(queue_pair, serving)
}

struct Call<'a> {
    process: &'a Process,
    inbound: &'a Arc<Inbound>,
    record: &'a Record,
    route: Route,
}

impl<'a> Call<'a> {
    fn memory(&self) -> &'a ProcessMemory {
        &self.process.memory
    }

    fn serve_any(&self, queue_pair: Option<&'a Arc<Qp>>, serving: &mut Serving) -> Progress<'a> {
        let Some(request) = Request::parse(&self.record.header) else {
            self.serve_no_request(queue_pair, serving);
            return Progress::Done(None);
        };
        if let Request::Datagram(datagram) = request {
            self.serve_datagram(&datagram);
            return Progress::Done(None);
        }
        if let Some(queue_pair) = queue_pair.filter(|of| of.kind == IBV_QPT_UC) {
            queue_pair.let_posting_finish();
        }
        match self.serve_connected(queue_pair, request, serving) {
            Ok(Progress::Blocked) => Progress::Blocked,
            Ok(done) => {
                serving.read_progress = 0;
                done
            }
            Err(failure) => {
                serving.read_progress = 0;
                self.refuse(serving, queue_pair, failure);
                Progress::Done(None)
            }
        }
    }

    fn serve_connected(
        &self,
        queue_pair: Option<&'a Arc<Qp>>,
        request: Request,
        serving: &mut Serving,
    ) -> Result<Progress<'a>, Failure> {
        if !self.is_from_live_requester() {
            // The requester has ended this connection and expects no answer.
            return Ok(Progress::Done(None));
        }
        if let Request::Message(message) = &request
            && let Some(shared) = message.shared
        {
            return self
                .serve_xrc(queue_pair, message, shared)
                .map(Progress::Done);
        }
        let queue_pair = queue_pair
            .filter(|queue_pair| queue_pair.is_connected_to(&self.route))
            .ok_or_else(Failure::no_answer)?;
        queue_pair.establish();
        match request {
            Request::Message(message) => self.serve_message(queue_pair, &message),
            Request::Write(write) => self.serve_write(queue_pair, &write),
            Request::Read(remote) => return self.serve_read(queue_pair, &remote, serving),
            Request::Atomic(remote) => self
                .serve_atomic(queue_pair, &remote, serving)
                .map(|()| None),
            Request::Flush(remote, flush) => {
                self.serve_flush(queue_pair, &remote, flush).map(|()| None)
            }
            Request::Datagram(_) => Ok(None),
        }
        .map(Progress::Done)
    }

    /// Returns whether the requester's queue pair still is in the incarnation that sent this, and
    /// not in the error state: a flushed request must not be executed, or a request could be
    /// executed whose predecessor was not.
    fn is_from_live_requester(&self) -> bool {
        let record = self.requester();
        let state = record.state.load(Ordering::SeqCst);
        state & QpRecord::PRESENT != 0
            && state & 0xff != IBV_QPS_ERR
            && (record.incarnation.load(Ordering::Relaxed) == self.route.source.incarnation
                || planted::is(planted::Bug::Incarnation))
    }

    /// Returns the published record of the requester's queue pair.
    fn requester(&self) -> &QpRecord {
        self.inbound
            .peer
            .contexts
            .queue_pair(self.route.source.number)
    }

    fn answer(&self, serving: &mut Serving, answer: Answer) {
        let header: Header = answer.emit(&self.route.back());
        serving
            .answers
            .push(&self.inbound.channel.answers(), header, 0, |_| ());
    }

    /// Checks that the queue pair allows an operation, even one on 0 bytes. Returns the protection
    /// domain that the memory must belong to: the queue pair's, or for XRC, whose responder has
    /// none, that of the shared receive queue in the request (architecture specification, annex
    /// A14).
    fn check_right(&self, queue_pair: &Qp, remote: &Remote, right: u32) -> Result<u32, Failure> {
        let record = queue_pair.memory.contexts().queue_pair(queue_pair.number);
        let allowed = record.access.load(Ordering::Relaxed);
        if allowed & right == 0 {
            explain::note_right(allowed, right);
            return Err(Failure::by(Fault::UnsupportedOpcode));
        }
        self.domain_of(queue_pair, remote)
    }

    /// Returns the protection domain that the memory of a request must belong to.
    fn domain_of(&self, queue_pair: &Qp, remote: &Remote) -> Result<u32, Failure> {
        let invalid = || {
            refusal::note(format_args!(
                "the request names XRC SRQ {:#x}, which is not in the queue pair's XRC domain",
                remote.shared.unwrap_or(0)
            ));
            Failure::by(Fault::NoSharedReceiveQueue)
        };
        let Some(xrcd) = &queue_pair.xrcd else {
            return Ok(queue_pair.pd_number());
        };
        let named = remote.shared.and_then(|srq| self.process.srqs.find(srq));
        let is_its = |srq: &Arc<Srq>| srq.xrc().is_some_and(|(own, _)| own.is_same(xrcd));
        named.filter(is_its).map(|srq| srq.pd()).ok_or_else(invalid)
    }

    /// Checks that the queue pair and the key allow an operation on `length` bytes.
    fn grant<'s>(
        &'s self,
        section: &'s Section<'_>,
        queue_pair: &'s Qp,
        remote: &Remote,
        right: u32,
        length: u64,
    ) -> Result<ResolvedRange<'s>, Failure> {
        let access_request = AccessRequest {
            key: remote.key,
            pd: self.check_right(queue_pair, remote, right)?,
            queue_pair: queue_pair.number,
            access: right,
        };
        let key = queue_pair.memory.keys().named_record(remote.key);
        grant(section, key, access_request, remote.address, length).map_err(|_| {
            explain::note_access_request(key, access_request, remote.address, length);
            Failure::by(Fault::RemoteAccess)
        })
    }

    /// Returns whether requests of this queue pair are dropped, after an RNR NAK, until the refused
    /// one is repeated.
    fn is_dropped(&self, queue_pair: &Qp) -> bool {
        queue_pair
            .lock_receive()
            .message_state
            .drops(self.route.source.incarnation)
    }

    fn serve_flush(&self, queue_pair: &Qp, remote: &Remote, flush: Flush) -> Result<(), Failure> {
        if self.is_dropped(queue_pair) {
            return Ok(());
        }
        self.check_fetch(queue_pair)?;
        let section = self.inbound.section(0);
        let access_request = AccessRequest {
            key: remote.key,
            pd: self.domain_of(queue_pair, remote)?,
            queue_pair: queue_pair.number,
            access: flush.access(),
        };
        let key = queue_pair.memory.keys().named_record(remote.key);
        let range = (remote.address, remote.length.into());
        flush::check(&section, key, access_request, flush, range)
            .map_err(|_| Failure::by(Fault::RemoteAccess))
    }

    fn complete(&self, cq: &Cq, wr_id: u64, status: Status) {
        let wc = ibv_wc {
            src_qp: self.route.source.number,
            ..failed_receive(self.route.destination.number, wr_id, status)
        };
        cq.push(Completion::received(wc), true);
    }
}

impl Qp {
    /// Waits for a thread that is posting. An unreliable send completes when it is in the channel;
    /// the peer may answer before the posting thread has pushed the completion, and the answer must
    /// not be seen first. Called before the receive queue is locked, because a reset locks the send
    /// queue first and then the receive queue.
    pub(super) fn let_posting_finish(&self) {
        drop(self.lock_send());
    }

    /// Returns whether requests on this route are for this incarnation of the queue pair, from the
    /// one that it is connected to.
    fn is_connected_to(&self, route: &Route) -> bool {
        let record = self.memory.contexts().queue_pair(self.number);
        self.receives()
            && (self.incarnation() == route.destination.incarnation
                || planted::is(planted::Bug::Incarnation))
            && record.destination.load(Ordering::Relaxed) == route.source.number
            && matches!(self.kind, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_RECV)
    }

    /// Reports with the first packet in RTR that the connection is established.
    fn establish(&self) {
        if self.state() != IBV_QPS_RTR || self.established.load(Ordering::Relaxed) {
            return;
        }
        // Checked first because a locked instruction would take an eighth of a packet's time.
        if !self.established.swap(true, Ordering::Relaxed) {
            self.raise(IBV_EVENT_COMM_EST);
        }
    }
}
