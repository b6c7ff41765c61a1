//! Executing a send request: by ourselves in the peer's memory where we can get there, through the channel else.
//!
//! Order (architecture specification, 10.8.3): requests of a queue pair take effect in the order of posting. What goes
//! through the channel is served in order; what we do ourselves happens at once. So while anything of the queue pair is
//! on its way through the channel, a later request that we could do ourselves goes through the channel too, or waits.

use crate::errno::Errno;
use crate::memory::place::{Claim, Piece, grant};
use crate::memory::transfer::{Granted, Runs};
use crate::path::{PULL_ANY, PULL_ARENA, Peer, Way};
use crate::process::link::{Acknowledge, Outbound, Pushed};
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::message::*;
use crate::qp::send::{SendQueue, SendRequest};
use crate::shm::channel::MAX_PAYLOAD;
use crate::shm::desk::QpRecord;
use crate::shm::ring::{Header, Record};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

/// Messages up to this are copied through the channel even where the responder could fetch them: two copies of few
/// bytes cost less than looking up where they are.
const EAGER: u64 = 4096;

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
        match window.map(|window| window.invalidate(request.immediate)) {
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

    fn send_message(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        job: &Job<'_>,
        progress: &mut u64,
    ) -> Outcome {
        let request = job.request;
        let runs = match self.runs(request, 0) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        let total = runs.total();
        if total > u64::from(crate::device::MAX_MESSAGE) {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        let record = match self.responder(send, &job.channel.peer) {
            Ok(record) => record,
            Err(outcome) => return outcome,
        };
        // The receive queue of an XRC message belongs to whoever owns the SRQ, perhaps a third process.
        let via = if self.kind == IBV_QPT_XRC_SEND {
            let Some(via) = self.process.outbound_to_number(request.srq) else {
                return Outcome::Seek(request.srq);
            };
            via
        } else {
            job.channel.clone()
        };
        let domain = record.xrcd.load(Ordering::Relaxed) as u32;
        let (immediate_flag, opcode_flags) = match request.opcode {
            IBV_WR_SEND_WITH_IMM => (IMMEDIATE, 0),
            IBV_WR_SEND_WITH_INV => (0, INVALIDATE),
            _ => (0, 0),
        };
        let header = Header {
            flags: immediate_flag | opcode_flags | solicited(request),
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: request.immediate,
            address: u64::from(request.srq),
            word: total | u64::from(domain) << 32,
            ..Header::default()
        };
        let eager = total <= EAGER || request.flags & IBV_SEND_INLINE != 0;
        if !eager && self.can_pull(&via, request) {
            return self.send_pull(send, job, &via, header, total);
        }
        self.send_copied(
            send,
            job,
            &via,
            Header {
                kind: SEND,
                ..header
            },
            &runs,
            progress,
        )
    }

    /// Whether the responder can fetch the buffers itself.
    fn can_pull(&self, via: &Outbound, request: &SendRequest<'_>) -> bool {
        if request.sges.len() * Source::LENGTH > MAX_PAYLOAD {
            return false;
        }
        if via.can_pull & PULL_ANY != 0 {
            return true;
        }
        via.can_pull & PULL_ARENA != 0
            && request.sges.iter().all(|sge| {
                let record = self.process.keys.record(sge.lkey);
                let claim = Claim {
                    key: sge.lkey,
                    pd: self.pd_number(),
                    queue_pair: 0,
                    access: 0,
                };
                grant(record, claim, sge.addr, u64::from(sge.length)).is_ok_and(|place| {
                    place
                        .pieces()
                        .all(|piece| !matches!(piece, Piece::Address { .. }))
                })
            })
    }

    fn send_pull(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        total: u64,
    ) -> Outcome {
        let sges = job.request.sges;
        let header = Header {
            kind: SEND_PULL,
            flags: header.flags | FIRST | LAST,
            ..header
        };
        let length = sges.len() * Source::LENGTH;
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = via.push(header, length, acknowledge, |target| {
            for (place, sge) in sges.iter().enumerate() {
                let source = Source {
                    address: sge.addr,
                    length: sge.length,
                    key: sge.lkey,
                };
                let bytes = source.emit();
                // SAFETY: the ring gave room for `length` bytes, and `place` is below the number of buffers.
                unsafe {
                    target
                        .add(place * Source::LENGTH)
                        .copy_from_nonoverlapping(bytes.as_ptr(), Source::LENGTH);
                }
            }
        });
        self.pushed(via, pushed, total)
    }

    /// Copies a message into the channel, in as many records as it takes.
    fn send_copied(
        self: &Arc<Qp>,
        send: &SendQueue,
        job: &Job<'_>,
        via: &Arc<Outbound>,
        header: Header,
        runs: &Runs,
        progress: &mut u64,
    ) -> Outcome {
        let total = runs.total();
        loop {
            let length = (total - *progress).min(MAX_PAYLOAD as u64) as usize;
            let first = if *progress == 0 { FIRST } else { 0 };
            let is_last = *progress + length as u64 == total;
            let last = if is_last { LAST } else { 0 };
            let record = Header {
                flags: header.flags | first | last,
                ..header
            };
            // Parts of a write say where each goes.
            let record = if header.kind == WRITE {
                Header {
                    address: header.address + *progress,
                    ..record
                }
            } else {
                record
            };
            let acknowledge = if is_last {
                Acknowledge::Request(self, job.index, send.epoch)
            } else {
                Acknowledge::Nothing
            };
            let offset = *progress as usize;
            let pushed = via.push(record, length, acknowledge, |target| {
                // SAFETY: the ring gave room for `length` bytes; the buffers are registered or inline.
                unsafe { runs.gather(offset, target, length) }
            });
            match self.pushed(via, pushed, length as u64) {
                Outcome::Sent if !is_last => *progress += length as u64,
                outcome => return outcome,
            }
        }
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

    fn write(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>, progress: &mut u64) -> Outcome {
        let request = job.request;
        let runs = match self.runs(request, 0) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        let total = runs.total();
        if total > u64::from(crate::device::MAX_MESSAGE) {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        let ordered = send.has_outstanding() || *progress > 0;
        if ordered && total > MAX_PAYLOAD as u64 && *progress == 0 && self.reaches(send, job, total)
        {
            return Outcome::Order;
        }
        if *progress == 0 {
            self.process.counters.shard().write_operations.add(1);
        }
        let notifies = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if !ordered {
            let access = job.channel.channel.slots().enter();
            let direct = self.reach(
                send,
                job,
                total,
                IBV_ACCESS_REMOTE_WRITE,
                |peer, granted| {
                    // SAFETY: the place is granted, and stays so while the access section is open; the buffers are
                    // registered or inline.
                    unsafe { runs.store(peer, granted) }
                },
            );
            drop(access);
            match direct {
                Direct::Finished(Outcome::Done) if notifies => {
                    return self.notice(send, job, total);
                }
                Direct::Finished(outcome) => return outcome,
                Direct::ThroughChannel => (),
            }
        } else if let Err(outcome) = self.responder(send, &job.channel.peer) {
            return outcome;
        }
        let header = Header {
            kind: WRITE,
            flags: if notifies {
                IMMEDIATE | solicited(request)
            } else {
                0
            },
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: request.immediate,
            address: request.remote_address,
            word: u64::from(request.rkey) | total << 32,
            ..Header::default()
        };
        self.send_copied(send, job, job.channel, header, &runs, progress)
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

    /// Whether all of a write's target can be reached by ourselves, so that waiting for the right moment beats copying
    /// it through the channel.
    fn reaches(&self, send: &mut SendQueue, job: &Job<'_>, length: u64) -> bool {
        let peer = &job.channel.peer;
        let Ok(responder) = self.responder(send, peer) else {
            return false;
        };
        let Some(pd) = self.remote_domain(peer, job.request, responder) else {
            return false;
        };
        let claim = Claim {
            key: job.request.rkey,
            pd,
            queue_pair: send.destination,
            access: IBV_ACCESS_REMOTE_WRITE,
        };
        let record = peer.desk.key(job.request.rkey);
        grant(record, claim, job.request.remote_address, length)
            .is_ok_and(|place| Granted::of(peer, place).is_some())
    }

    /// The bytes of a write with immediate are in place: tells the receive queue.
    fn notice(self: &Arc<Qp>, send: &SendQueue, job: &Job<'_>, total: u64) -> Outcome {
        let header = Header {
            kind: WRITE_NOTICE,
            flags: FIRST | LAST | IMMEDIATE | solicited(job.request),
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: job.request.immediate,
            word: total,
            ..Header::default()
        };
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = job.channel.push(header, 0, acknowledge, |_| ());
        self.pushed(job.channel, pushed, 0)
    }

    fn read(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if send.max_rd_atomic == 0 {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let runs = match self.runs(request, IBV_ACCESS_LOCAL_WRITE) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().read_operations.add(1);
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(
            send,
            job,
            runs.total(),
            IBV_ACCESS_REMOTE_READ,
            |peer, granted| {
                // SAFETY: as for a write.
                unsafe { runs.load(peer, granted) }
            },
        );
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let header = Header {
            kind: READ,
            flags: FIRST | LAST,
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: request.rkey,
            address: request.remote_address,
            word: runs.total(),
            ..Header::default()
        };
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = job.channel.push(header, 0, acknowledge, |_| ());
        self.pushed(job.channel, pushed, 0)
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
        let claim = Claim {
            key: job.request.rkey,
            pd,
            queue_pair: send.destination,
            access: right,
        };
        let record = peer.desk.key(job.request.rkey);
        let Ok(place) = grant(record, claim, job.request.remote_address, length) else {
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
            kind: VIOLATION,
            flags: FIRST | LAST,
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: status,
            ..Header::default()
        };
        if job.channel.push(header, 0, Acknowledge::Nothing, |_| ()) == Pushed::Stored {
            job.channel.peer.wake();
        }
        Outcome::Failed(status)
    }

    fn flush(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().other_operations.add(1);
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(send, job, 1, IBV_ACCESS_FLUSH_GLOBAL, |_, _| Ok(()));
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let header = Header {
            kind: FLUSH,
            flags: FIRST | LAST,
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: job.request.rkey,
            address: job.request.remote_address,
            ..Header::default()
        };
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = job.channel.push(header, 0, acknowledge, |_| ());
        self.pushed(job.channel, pushed, 0)
    }

    fn atomic(self: &Arc<Qp>, send: &mut SendQueue, job: &Job<'_>) -> Outcome {
        let request = job.request;
        if send.max_rd_atomic == 0 {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let writes = request.opcode == IBV_WR_ATOMIC_WRITE;
        let runs = match self.runs(request, if writes { 0 } else { IBV_ACCESS_LOCAL_WRITE }) {
            Ok(runs) => runs,
            Err(outcome) => return outcome,
        };
        if runs.total() < 8 {
            return Outcome::Failed(IBV_WC_LOC_LEN_ERR);
        }
        if send.has_outstanding() {
            return Outcome::Order;
        }
        self.process.counters.shard().atomic_operations.add(1);
        let mut operand = request.swap;
        if writes {
            let mut bytes = [0u8; 8];
            // SAFETY: 8 writable bytes, and the buffers hold at least 8.
            unsafe { runs.gather(0, bytes.as_mut_ptr(), 8) };
            operand = u64::from_ne_bytes(bytes);
        }
        let operation = Atomic {
            opcode: request.opcode,
            compare_add: request.compare_add,
            operand,
        };
        let right = if writes {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            IBV_ACCESS_REMOTE_ATOMIC
        };
        if !request.remote_address.is_multiple_of(8) {
            return self.violate(send, job, IBV_WC_REM_INV_REQ_ERR);
        }
        let access = job.channel.channel.slots().enter();
        let direct = self.reach(send, job, 8, right, |peer, granted| {
            let Some(target) = granted
                .place
                .pieces()
                .next()
                .and_then(|piece| whole_word(peer, piece))
            else {
                return Err(Errno::EOPNOTSUPP);
            };
            let found = operation.perform(target).to_ne_bytes();
            if !writes {
                // SAFETY: 8 readable bytes; the buffers are registered for writing.
                unsafe { runs.scatter(0, found.as_ptr(), 8) };
            }
            Ok(())
        });
        drop(access);
        if let Direct::Finished(outcome) = direct {
            return outcome;
        }
        let mut payload = [0u8; 24];
        payload[..8].copy_from_slice(&operation.compare_add.to_le_bytes());
        payload[8..16].copy_from_slice(&operation.operand.to_le_bytes());
        payload[16..].copy_from_slice(&operation.code().to_le_bytes());
        let header = Header {
            kind: ATOMIC,
            flags: FIRST | LAST,
            destination: send.destination,
            source: self.number,
            psn: job.psn,
            immediate: request.rkey,
            address: request.remote_address,
            ..Header::default()
        };
        let acknowledge = Acknowledge::Request(self, job.index, send.epoch);
        let pushed = job
            .channel
            .push(header, payload.len(), acknowledge, |target| {
                // SAFETY: the ring gave room for the payload.
                unsafe { target.copy_from_nonoverlapping(payload.as_ptr(), payload.len()) }
            });
        self.pushed(job.channel, pushed, 8)
    }

    /// An answer from the responder.
    pub(crate) fn answered(self: &Arc<Qp>, from: &Arc<Outbound>, record: &Record) {
        let mut send = self.lock_send();
        let header = &record.header;
        // Of answers from anybody but whom we asked, only those about an XRC queue can be ours.
        let expected = send
            .channel
            .as_ref()
            .is_some_and(|channel| Arc::ptr_eq(channel, from));
        if !expected && self.kind != IBV_QPT_XRC_SEND {
            return;
        }
        match header.kind {
            NAK => {
                let (syndrome, timer) = (header.immediate & 0xff, (header.immediate >> 8) as u8);
                match syndrome {
                    RECEIVER_NOT_READY => self.not_ready(&mut send, header.psn, timer),
                    LOST => self.lost(&mut send, header.psn),
                    INVALID_REQUEST => self.failed(&mut send, header.psn, IBV_WC_REM_INV_REQ_ERR),
                    REMOTE_ACCESS => self.failed(&mut send, header.psn, IBV_WC_REM_ACCESS_ERR),
                    _ => self.failed(&mut send, header.psn, IBV_WC_REM_OP_ERR),
                }
            }
            READ_DATA => {
                let length = u64::from(header.length);
                self.take_answer(&mut send, header.psn, header.word, record.payload, length);
            }
            ATOMIC_RESULT => {
                let found = header.word.to_ne_bytes();
                self.take_answer(&mut send, header.psn, 0, found.as_ptr(), 8);
            }
            // From a newer peer, or garbage: it answers nothing that we asked.
            _ => (),
        }
    }

    /// Places part of an answer; completes the request when it is whole.
    fn take_answer(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        psn: u32,
        offset: u64,
        payload: *const u8,
        length: u64,
    ) {
        let Some(one) = Qp::awaiting(send, psn) else {
            return;
        };
        let request = one.request();
        let total = match request.opcode {
            IBV_WR_RDMA_READ => request.sges.iter().map(|sge| u64::from(sge.length)).sum(),
            IBV_WR_FLUSH => 0,
            _ => 8,
        };
        // The peer's words: an answer that does not continue the last one, or is too long, is none.
        if offset != one.progress && request.opcode == IBV_WR_RDMA_READ {
            return;
        }
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return;
        }
        if request.opcode != IBV_WR_ATOMIC_WRITE {
            match self.runs(&request, IBV_ACCESS_LOCAL_WRITE) {
                // SAFETY: the record holds `length` bytes (checked by the ring); the buffers are registered.
                Ok(runs) => unsafe { runs.scatter(offset as usize, payload, length as usize) },
                Err(_) => {
                    self.failed(send, psn, IBV_WC_LOC_PROT_ERR);
                    return;
                }
            }
        }
        let Some(one) = Qp::awaiting(send, psn) else {
            return;
        };
        one.progress = offset + length;
        if one.progress == total {
            self.answer_is_whole(send, psn);
        }
    }
}

/// A request and what it needs.
struct Job<'a> {
    channel: &'a Arc<Outbound>,
    request: &'a SendRequest<'a>,
    index: u64,
    psn: u32,
}

pub(super) fn solicited(request: &SendRequest<'_>) -> u8 {
    if request.flags & IBV_SEND_SOLICITED != 0 {
        SOLICITED
    } else {
        0
    }
}

/// The word behind a piece, if an atomic of this processor can be done on it.
fn whole_word(peer: &Peer, piece: Piece) -> Option<*mut u8> {
    match peer.way(piece) {
        Way::Pointer(pointer) if piece.length() == 8 && (pointer as usize).is_multiple_of(8) => {
            Some(pointer)
        }
        _ => None,
    }
}
