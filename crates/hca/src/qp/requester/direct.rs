//! Direct access of a requester to its peer's memory.

use super::Job;
use crate::qp::Qp;
use crate::qp::send::{SendQueue, SendRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::peer::{Direction, Peer};
use verbena_hca_memory::resolve::{AccessRequest, Refusal, ResolvedRange, grant};
use verbena_hca_memory::transfer::Granted;
use verbena_hca_os::errno::Errno;
use verbena_hca_shm::channel::MAX_PAYLOAD;
use verbena_hca_shm::context_table::QpRecord;
use verbena_hca_shm::section::Section;

/// Bytes moved in one section: revoking a right waits for no more than that.
pub(super) const CHUNK: u64 = 1 << 20;

/// Result of a direct operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direct {
    Done,
    /// Not possible or not allowed directly: send the request to the responder.
    ThroughChannel,
    /// The peer does not answer.
    NoAnswer,
    Failed(ibv_wc_status),
}

/// Part of the range that a request names, and the operation on it.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Bytes of the whole range, all of which the request must have a right to.
    pub total: u64,
    /// Offset of the part.
    pub offset: u64,
    /// Bytes of the part.
    pub length: u64,
    /// Read or write.
    pub direction: Direction,
}

impl Span {
    /// Returns the span of a whole range.
    pub fn whole(total: u64, direction: Direction) -> Span {
        Span {
            total,
            offset: 0,
            length: total,
            direction,
        }
    }
}

/// The right to a range of a peer's memory, with the data to check that it held.
pub(super) struct Right<'a> {
    /// Location of the range.
    pub granted: Option<Granted<'a>>,
    peer: &'a Peer,
    record: &'a QpRecord,
    incarnation: u32,
    access: u32,
    range: Option<ResolvedRange<'a>>,
}

impl Qp {
    /// Moves all of a request's bytes directly, if the whole range in the peer can be reached.
    #[inline]
    pub(super) fn transfer(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        access: u32,
        direction: Direction,
    ) -> Direct {
        let peer = &job.channel.peer;
        let total = job.request.length();
        let local = match direction {
            Direction::Load => IBV_ACCESS_LOCAL_WRITE,
            Direction::Store => 0,
        };
        let mut offset = 0;
        loop {
            let length = (total - offset).min(CHUNK);
            let section = job.channel.section(job.request.rkey);
            let Ok(runs) = self.runs(&section, job.request, local) else {
                return Direct::Failed(IBV_WC_LOC_PROT_ERR);
            };
            let span = Span {
                total,
                offset,
                length,
                direction,
            };
            let right = match self.right(&section, send, job, access, span) {
                Ok(right) => right,
                Err(direct) => return direct,
            };
            if let Some(granted) = right.granted {
                match runs.exchange(offset as usize, peer, granted) {
                    Ok(()) => self.count_direct(length, granted.is_through_kernel(peer)),
                    Err(Errno(libc::ESRCH)) => {
                        peer.declare_dead();
                        return Direct::NoAnswer;
                    }
                    // The channel path finds out on which side the memory is missing.
                    Err(_) => return Direct::ThroughChannel,
                }
            }
            if !self.has_held(&right) {
                return Direct::ThroughChannel;
            }
            offset += length;
            if offset >= total {
                return Direct::Done;
            }
        }
    }

    /// Returns whether a request that must not overtake requests in flight should wait for them: it
    /// can be done directly afterwards, and is so long that waiting is faster than copying it
    /// through the channel.
    pub(super) fn better_waits(
        &self,
        send: &mut SendQueue,
        job: &Job<'_>,
        access: u32,
        direction: Direction,
    ) -> bool {
        let total = job.request.length();
        let peer = &job.channel.peer;
        if total <= MAX_PAYLOAD as u64 {
            return false;
        }
        let Some(responder) = self.responder(send, peer, job.psn) else {
            return false;
        };
        let section = job.channel.section(job.request.rkey);
        self.remote_domain(peer, job.request, responder)
            .and_then(|pd| remote_range(&section, send, job, pd, access, total).ok())
            .is_some_and(|range| Granted::of(peer, range, direction).is_some())
    }

    /// Returns the right of a request to a span of the peer's memory.
    #[inline]
    pub(super) fn right<'a>(
        &self,
        section: &'a Section<'_>,
        send: &mut SendQueue,
        job: &'a Job<'_>,
        access: u32,
        span: Span,
    ) -> Result<Right<'a>, Direct> {
        let peer = &job.channel.peer;
        let Some(record) = self.responder(send, peer, job.psn) else {
            return Err(Direct::NoAnswer);
        };
        if record.access.load(Ordering::Relaxed) & access == 0 {
            return Err(Direct::ThroughChannel);
        }
        let mut right = Right {
            granted: None,
            peer,
            record,
            incarnation: record.incarnation.load(Ordering::Relaxed),
            access,
            range: None,
        };
        if span.total == 0 {
            // The key of an operation on 0 bytes is not checked (architecture specification,
            // C9-88).
            let domain = self.remote_domain(peer, job.request, record);
            return domain.map(|_| right).ok_or(Direct::ThroughChannel);
        }
        let range = self
            .remote_domain(peer, job.request, record)
            .and_then(|pd| remote_range(section, send, job, pd, access, span.total).ok())
            .ok_or(Direct::ThroughChannel)?;
        let granted = Granted::of(peer, range.part(span.offset, span.length), span.direction);
        right.granted = Some(granted.ok_or(Direct::ThroughChannel)?);
        right.range = Some(range);
        Ok(right)
    }

    /// Returns whether a right held until now. If not, this thread was stopped inside its section
    /// and the peer did not wait for it: the memory accessed may no longer have been the peer's.
    #[inline]
    pub(super) fn has_held(&self, right: &Right<'_>) -> bool {
        right.range.is_none_or(|range| range.has_held())
            && self.is_answered_by(right.peer, right.record)
            && right.record.incarnation.load(Ordering::Relaxed) == right.incarnation
            && right.record.access.load(Ordering::Relaxed) & right.access != 0
    }

    /// Returns whether the memory of a right that did not hold was only moved: key and queue pair
    /// still grant it, though perhaps at a location that cannot be reached.
    pub(super) fn is_still_granted(
        &self,
        section: &Section<'_>,
        send: &SendQueue,
        job: &Job<'_>,
        right: &Right<'_>,
    ) -> bool {
        let (record, peer) = (right.record, &job.channel.peer);
        self.is_answered_by(peer, record)
            && record.incarnation.load(Ordering::Relaxed) == right.incarnation
            && record.access.load(Ordering::Relaxed) & right.access != 0
            && right.range.is_some_and(|range| {
                self.remote_domain(peer, job.request, record)
                    .is_some_and(|pd| {
                        remote_range(section, send, job, pd, right.access, range.length()).is_ok()
                    })
            })
    }

    /// Returns the protection domain that the peer's keys must belong to: the responder's, or for
    /// XRC, whose responder has none, that of the shared receive queue in the request (architecture
    /// specification, annex A14). None if the request names no such queue; the responder then
    /// checks the key.
    pub(super) fn remote_domain(
        &self,
        peer: &Peer,
        request: &SendRequest<'_>,
        responder: &QpRecord,
    ) -> Option<u32> {
        if self.kind != IBV_QPT_XRC_SEND {
            return Some(responder.pd.load(Ordering::Relaxed));
        }
        let xrcd = responder.xrcd.load(Ordering::Relaxed);
        peer.contexts.queue_pair(request.srq).domain_of_srq(xrcd)
    }

    #[inline]
    pub(super) fn count_direct(&self, length: u64, through_kernel: bool) {
        let counters = self.process.counters.shard();
        if !through_kernel {
            counters.count_mapped(length);
        } else {
            counters.operation_bytes.add(length);
            counters.cma_path_operations.add(1);
            counters.cma_path_bytes.add(length);
        }
    }
}

/// Returns the range in the peer's memory that a request names, if its key grants it.
#[inline]
pub(super) fn remote_range<'a>(
    section: &'a Section<'_>,
    send: &SendQueue,
    job: &'a Job<'_>,
    pd: u32,
    access: u32,
    length: u64,
) -> Result<ResolvedRange<'a>, Refusal> {
    let access_request = AccessRequest {
        key: job.request.rkey,
        pd,
        queue_pair: send.destination,
        access,
    };
    let record = job.channel.peer.contexts.key(job.request.rkey);
    grant(
        section,
        record,
        access_request,
        job.request.remote_address,
        length,
    )
}
