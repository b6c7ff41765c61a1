//! Serving a request that came through a channel.
//!
//! Everything in a record is the peer's word. Lengths were checked by the ring; numbers, keys and addresses are checked
//! here as a device checks those of a packet. A record that no correct peer sends ends the connection.
//!
//! The answer "done" is the position in the ring. Any other answer is published on the answer ring before the position
//! passes the record (SYNC POINT answers in [`crate::process::progress`]); so a record is not begun without room for one.

mod arrival;
mod atomic;
mod message;
mod read;
mod write;

pub use arrival::{Arrival, Arriving};

use crate::cq::{Completion, Cq};
use crate::memory::place::{Claim, Place, Refusal, grant};
use crate::process::Process;
use crate::process::link::{Inbound, Serving};
use crate::qp::Qp;
use crate::qp::datagram;
use crate::qp::message::*;
use crate::receive::Srq;
use crate::shm::ring::{Header, Record};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

/// Whether a record is dealt with.
pub enum Progress<'a> {
    /// It is. The completion of the receive that it took, if any, is to be pushed once the requester can see that it is
    /// dealt with: a program that answers a message may count on the sender's having its completion first.
    Done(Option<Delivered<'a>>),
    /// It needs room for answers; again later.
    Blocked,
}

/// A completion that is ready for its queue.
pub struct Delivered<'a> {
    cq: Completing<'a>,
    wc: ibv_wc,
    solicited: bool,
}

/// Whose completion queue it is. Counting the queue's users up and down would cost as much as checking a key.
enum Completing<'a> {
    /// That of a queue pair.
    QueuePair(&'a Cq),
    /// That of an XRC shared receive queue.
    Shared(Arc<Cq>),
}

impl Delivered<'_> {
    /// Makes it visible to the application.
    pub fn push(self) {
        let completion = Completion::received(self.wc);
        let cq: &Cq = match &self.cq {
            Completing::QueuePair(cq) => cq,
            Completing::Shared(cq) => cq,
        };
        cq.push(completion, self.solicited);
    }
}

/// How a request fails: what the requester is told, what our own receive completes with, and what event is raised.
struct Failure {
    syndrome: u32,
    receive: Option<(u64, ibv_wc_status)>,
    event: Option<ibv_event_type>,
}

impl Failure {
    fn of(syndrome: u32) -> Failure {
        Failure {
            syndrome,
            receive: None,
            event: None,
        }
    }

    fn fatal(syndrome: u32, event: ibv_event_type) -> Failure {
        Failure {
            syndrome,
            receive: None,
            event: Some(event),
        }
    }
}

/// The queue pair that the last record was for. The next is likely for the same, and looking a queue pair up and counting
/// its users takes longer than checking a message.
///
/// One that is destroyed serves nothing: its state is RESET for good. It is forgotten before its number is given to
/// another ([`Process::wait_for_accesses`]).
#[derive(Default)]
pub struct Known(Option<Arc<Qp>>);

impl Known {
    fn find(&mut self, process: &Process, number: u32) -> Option<&Arc<Qp>> {
        if self.0.as_ref().is_none_or(|known| known.number != number) {
            self.0 = process.queue_pairs.find(number);
        }
        self.0.as_ref()
    }

    /// Remembers nothing any more.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

/// Serves one record.
pub fn serve<'a>(
    process: &Process,
    inbound: &Arc<Inbound>,
    serving: &mut Serving,
    known: &'a mut Known,
    record: &Record,
) -> Progress<'a> {
    if !serving.answers.has_room(&inbound.channel.answers(), 0) {
        return Progress::Blocked;
    }
    let header = &record.header;
    if header.kind == DATAGRAM {
        datagram::serve_datagram(process, record);
        return Progress::Done(None);
    }
    let queue_pair = known.find(process, header.destination);
    let call = Call {
        process,
        inbound,
        record,
    };
    let result = match header.kind {
        SEND | SEND_PULL | WRITE_NOTICE if header.address != 0 => call.serve_xrc(queue_pair),
        _ => match queue_pair.filter(|queue_pair| queue_pair.listens_to(header.source)) {
            None => Err(Failure::of(LOST)),
            Some(queue_pair) => {
                queue_pair.establish();
                match header.kind {
                    SEND | SEND_PULL | WRITE_NOTICE => call.serve_message(queue_pair),
                    WRITE => call.serve_write(queue_pair),
                    READ => match call.serve_read(queue_pair, serving) {
                        Ok(progress) => return progress,
                        Err(failure) => Err(failure),
                    },
                    ATOMIC => call.serve_atomic(queue_pair, serving).map(|()| None),
                    FLUSH => call.serve_flush(queue_pair).map(|()| None),
                    VIOLATION => {
                        let event = match header.immediate {
                            IBV_WC_REM_ACCESS_ERR => IBV_EVENT_QP_ACCESS_ERR,
                            IBV_WC_REM_INV_REQ_ERR => IBV_EVENT_QP_REQ_ERR,
                            _ => IBV_EVENT_QP_FATAL,
                        };
                        queue_pair.fail_as_responder(event);
                        Ok(None)
                    }
                    _ => {
                        inbound.peer.declare_dead();
                        Ok(None)
                    }
                }
            }
        },
    };
    match result {
        Ok(delivered) => {
            if let Some(queue_pair) = queue_pair.filter(|queue_pair| queue_pair.kind == IBV_QPT_UC)
            {
                queue_pair.let_posting_finish();
            }
            Progress::Done(delivered)
        }
        Err(failure) => {
            call.refuse(serving, queue_pair, failure);
            Progress::Done(None)
        }
    }
}

/// A record being served.
struct Call<'a> {
    process: &'a Process,
    inbound: &'a Arc<Inbound>,
    record: &'a Record,
}

impl Call<'_> {
    fn refuse(&self, serving: &mut Serving, queue_pair: Option<&Arc<Qp>>, failure: Failure) {
        let reliable = queue_pair
            .is_none_or(|queue_pair| matches!(queue_pair.kind, IBV_QPT_RC | IBV_QPT_XRC_RECV));
        if reliable {
            let answer = Header {
                kind: NAK,
                immediate: failure.syndrome,
                ..self.answer()
            };
            serving
                .answers
                .push(&self.inbound.channel.answers(), answer, 0, |_| ());
        }
        let Some(queue_pair) = queue_pair else { return };
        if let Some((wr_id, status)) = failure.receive {
            self.complete(queue_pair, queue_pair.recv_cq.as_ref(), wr_id, status, 0);
        }
        if let Some(event) = failure.event.filter(|_| reliable) {
            queue_pair.fail_as_responder(event);
        }
    }

    fn answer(&self) -> Header {
        let header = &self.record.header;
        Header {
            destination: header.source,
            psn: header.psn,
            ..Header::default()
        }
    }

    fn claim(&self, queue_pair: &Qp, key: u32, access: u32) -> Claim {
        let pd = match &queue_pair.xrcd {
            None => queue_pair.pd_number(),
            // The requester has looked at the queue that the request names; here it may be any of the XRC domain.
            Some(xrcd) => {
                let pd = self.process.keys.record(key).pd.load(Ordering::Relaxed);
                let is_its = |srq: &Srq| {
                    srq.pd() == pd && srq.xrc().is_some_and(|(own, _)| own.is_same(xrcd))
                };
                if self.process.srqs.any(is_its) { pd } else { 0 }
            }
        };
        Claim {
            key,
            pd,
            queue_pair: queue_pair.number,
            access,
        }
    }

    /// Checks that the queue pair and the key allow the operation.
    fn grant<'a>(
        &'a self,
        queue_pair: &Qp,
        key: u32,
        right: u32,
        address: u64,
        length: u64,
    ) -> Result<Place<'a>, Failure> {
        let record = self.process.desk.queue_pair(queue_pair.number);
        if record.access.load(Ordering::Relaxed) & right == 0 {
            return Err(Failure::fatal(INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR));
        }
        let claim = self.claim(queue_pair, key, right);
        grant(self.process.keys.record(key), claim, address, length)
            .map_err(|_: Refusal| Failure::fatal(REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR))
    }

    fn is_discarded(&self, queue_pair: &Qp) -> bool {
        queue_pair.lock_receive().arrival.discard_until.is_some()
    }

    fn serve_flush(&self, queue_pair: &Arc<Qp>) -> Result<(), Failure> {
        let header = &self.record.header;
        self.grant(
            queue_pair,
            header.immediate,
            IBV_ACCESS_FLUSH_GLOBAL,
            header.address,
            1,
        )?;
        Ok(())
    }

    fn complete(
        &self,
        queue_pair: &Qp,
        cq: Option<&Arc<Cq>>,
        wr_id: u64,
        status: ibv_wc_status,
        byte_len: u32,
    ) {
        let wc = ibv_wc {
            wr_id,
            status,
            opcode: IBV_WC_RECV,
            byte_len,
            qp_num: queue_pair.number,
            src_qp: self.record.header.source,
            vendor_err: 0x80 | status,
            ..ibv_wc::default()
        };
        if let Some(cq) = cq {
            cq.push(Completion::received(wc), true);
        }
    }
}

impl Qp {
    /// Waits for a thread that is posting. An unreliable send completes when it is in the channel; the peer may answer
    /// before the thread that put it there has pushed the completion, and an answer must not come first.
    pub(super) fn let_posting_finish(&self) {
        drop(self.lock_send());
    }

    /// Whether requests from the queue pair `source` are served.
    fn listens_to(&self, source: u32) -> bool {
        let record = self.process.desk.queue_pair(self.number);
        matches!(
            self.state(),
            IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE
        ) && record.destination.load(Ordering::Relaxed) == source
            && matches!(self.kind, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_RECV)
    }

    /// The first packet while ready to receive tells that the connection is established.
    fn establish(&self) {
        if self.state() == IBV_QPS_RTR && !self.established.swap(true, Ordering::Relaxed) {
            self.raise(IBV_EVENT_COMM_EST);
        }
    }
}
