//! Serving a request that came through a channel.
//!
//! Everything in a record is the peer's word. Lengths were checked by the ring; numbers, keys and addresses are checked
//! here as a device checks those of a packet. A record that no correct peer sends ends the connection.
//!
//! The answer "done" is the position in the ring. Any other answer is published on the answer ring before the position
//! passes the record (SYNC POINT answers in [`crate::process::progress`]); so a record is not begun without room for one.

use crate::cq::{Completion, Cq};
use crate::errno::Errno;
use crate::memory::place::{Claim, Piece, Place, Refusal, grant};
use crate::memory::transfer::Runs;
use crate::process::Process;
use crate::process::link::{Inbound, Serving};
use crate::qp::atomic::Atomic;
use crate::qp::datagram;
use crate::qp::message::*;
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::{Receive, Srq};
use crate::shm::channel::MAX_PAYLOAD;
use crate::shm::ring::{Header, Record};
use crate::sys::{copy, own_memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

/// Whether a record is dealt with.
pub enum Progress {
    /// It is. The completion of the receive that it took, if any, is to be pushed once the requester can see that it is
    /// dealt with: a program that answers a message may count on the sender's having its completion first.
    Done(Option<Delivered>),
    /// It needs room for answers; again later.
    Blocked,
}

/// A completion that is ready for its queue.
pub struct Delivered {
    cq: Arc<Cq>,
    wc: ibv_wc,
    solicited: bool,
}

impl Delivered {
    /// Makes it visible to the application.
    pub fn push(self) {
        let completion = Completion {
            wc: self.wc,
            timestamp: 0,
            retire: None,
        };
        self.cq.push(completion, self.solicited);
    }
}

/// Where a queue of incoming messages stands.
#[derive(Default)]
pub struct Arrival {
    /// After a receiver-not-ready answer: everything is dropped until this packet comes again.
    pub discard_until: Option<u32>,
    /// A message of which a part has come.
    pub current: Option<Arriving>,
}

/// A message of which a part has come.
pub struct Arriving {
    /// Where it goes.
    pub receive: Receive,
    offset: u64,
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

/// Serves one record.
pub fn serve(
    process: &Process,
    inbound: &Arc<Inbound>,
    serving: &mut Serving,
    record: &Record,
) -> Progress {
    if !serving.answers.has_room(&inbound.channel.answers(), 0) {
        return Progress::Blocked;
    }
    let header = &record.header;
    if header.kind == DATAGRAM {
        datagram::serve_datagram(process, record);
        return Progress::Done(None);
    }
    let queue_pair = process.queue_pairs.find(header.destination);
    let call = Call {
        process,
        inbound,
        record,
    };
    let result = match header.kind {
        SEND | SEND_PULL | WRITE_NOTICE if header.address != 0 => {
            call.serve_xrc(queue_pair.as_ref())
        }
        _ => match queue_pair
            .as_ref()
            .filter(|queue_pair| queue_pair.listens_to(header.source))
        {
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
            call.refuse(serving, queue_pair.as_ref(), failure);
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

    /// A message for the queue pair's own, or its shared, receive queue.
    fn serve_message(&self, queue_pair: &Arc<Qp>) -> Result<Option<Delivered>, Failure> {
        let mut guard = queue_pair.lock_receive();
        let receive: &mut ReceiveQueue = &mut guard;
        let timer = receive.rnr_timer;
        let pd = queue_pair
            .srq
            .as_ref()
            .map_or(queue_pair.pd_number(), |srq| srq.pd());
        let ring = &mut receive.ring;
        let take = || match &queue_pair.srq {
            Some(srq) => srq.take(),
            None => ring.take(),
        };
        let cq = queue_pair.recv_cq.as_ref();
        self.deliver(queue_pair.number, &mut receive.arrival, take, pd, timer, cq)
    }

    /// A message for an XRC shared receive queue of this process. The queue pair that it came for may be another's.
    fn serve_xrc(&self, queue_pair: Option<&Arc<Qp>>) -> Result<Option<Delivered>, Failure> {
        let header = &self.record.header;
        let mut timer = 0;
        if let Some(queue_pair) = queue_pair {
            if !queue_pair.listens_to(header.source) {
                return Err(Failure::of(LOST));
            }
            queue_pair.establish();
            timer = queue_pair.lock_receive().rnr_timer;
        }
        let number = u32::try_from(header.address).map_err(|_| Failure::of(INVALID_REQUEST))?;
        let srq: Arc<Srq> = self
            .process
            .srqs
            .find(number)
            .ok_or(Failure::of(INVALID_REQUEST))?;
        let (xrcd, cq) = srq.xrc().ok_or(Failure::of(INVALID_REQUEST))?;
        if xrcd.identity() as u32 != (header.word >> 32) as u32 {
            return Err(Failure::of(INVALID_REQUEST));
        }
        let mut arrivals = self
            .process
            .xrc_arrivals
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        let arrival = arrivals.entry(header.source).or_default();
        self.deliver(
            header.destination,
            arrival,
            || srq.take(),
            srq.pd(),
            timer,
            Some(cq),
        )
    }

    fn deliver(
        &self,
        number: u32,
        arrival: &mut Arrival,
        take: impl FnOnce() -> Option<Receive>,
        pd: u32,
        timer: u8,
        cq: Option<&Arc<Cq>>,
    ) -> Result<Option<Delivered>, Failure> {
        let header = &self.record.header;
        if let Some(awaited) = arrival.discard_until {
            if awaited != header.psn || header.flags & FIRST == 0 {
                return Ok(None);
            }
            arrival.discard_until = None;
        }
        let total = header.word & 0xffff_ffff;
        let mut current = if header.flags & FIRST != 0 {
            let Some(receive) = take() else {
                arrival.discard_until = Some(header.psn);
                return Err(Failure::of(RECEIVER_NOT_READY | u32::from(timer) << 8));
            };
            Arriving { receive, offset: 0 }
        } else {
            // The rest of a message whose beginning was dropped.
            let Some(current) = arrival.current.take() else {
                return Ok(None);
            };
            current
        };
        let wr_id = current.receive.wr_id;
        let fail = |syndrome, status| Failure {
            syndrome,
            receive: Some((wr_id, status)),
            event: Some(IBV_EVENT_QP_FATAL),
        };
        let places = header.kind != WRITE_NOTICE && header.kind != WRITE;
        if places {
            if total > current.receive.sges.length() {
                return Err(fail(INVALID_REQUEST, IBV_WC_LOC_LEN_ERR));
            }
            let sges = current.receive.sges.as_slice();
            let runs = if total == 0 {
                Runs::new()
            } else {
                Runs::resolve(self.process, pd, sges, IBV_ACCESS_LOCAL_WRITE)
                    .map_err(|_| fail(REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR))?
            };
            let placed = if header.kind == SEND_PULL {
                self.pull(&runs)
            } else {
                let length = u64::from(header.length);
                if current.offset + length > total {
                    return Err(fail(INVALID_REQUEST, IBV_WC_LOC_LEN_ERR));
                }
                // SAFETY: the record holds `length` bytes of payload; the buffers are registered.
                unsafe {
                    runs.scatter(
                        current.offset as usize,
                        self.record.payload,
                        length as usize,
                    );
                }
                current.offset += length;
                Ok(())
            };
            placed.map_err(|_| fail(REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR))?;
        }
        if header.flags & LAST == 0 {
            arrival.current = Some(current);
            return Ok(None);
        }
        let mut wc = ibv_wc {
            wr_id,
            status: IBV_WC_SUCCESS,
            opcode: if places {
                IBV_WC_RECV
            } else {
                IBV_WC_RECV_RDMA_WITH_IMM
            },
            byte_len: total as u32,
            qp_num: number,
            src_qp: header.source,
            slid: crate::device::LID,
            ..ibv_wc::default()
        };
        self.mark(&mut wc)
            .map_err(|()| fail(REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR))?;
        self.process.counters.shard().receive_operations.add(1);
        self.process.counters.shard().receive_bytes.add(total);
        Ok(cq.map(|cq| Delivered {
            cq: cq.clone(),
            wc,
            solicited: header.flags & SOLICITED != 0,
        }))
    }

    /// Immediate data or invalidation.
    fn mark(&self, wc: &mut ibv_wc) -> Result<(), ()> {
        let header = &self.record.header;
        if header.flags & IMMEDIATE != 0 {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            wc.imm = ibv_wc_imm {
                imm_data: header.immediate,
            };
        }
        if header.flags & INVALIDATE != 0 {
            let window = self.process.windows.find(header.immediate).ok_or(())?;
            window.invalidate(header.immediate).map_err(|_| ())?;
            wc.wc_flags |= IBV_WC_WITH_INV;
            wc.imm = ibv_wc_imm {
                invalidated_rkey: header.immediate,
            };
        }
        Ok(())
    }

    /// Fetches a message from the requester's buffers.
    fn pull(&self, runs: &Runs) -> Result<(), Errno> {
        let peer = &self.inbound.peer;
        let length = self.record.header.length as usize;
        let mut offset = 0;
        for place in 0..length / Source::LENGTH {
            let mut bytes = [0; Source::LENGTH];
            // SAFETY: the record holds `length` bytes of payload.
            unsafe {
                let from = self.record.payload.add(place * Source::LENGTH);
                bytes
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(from, Source::LENGTH);
            }
            let source = Source::parse(&bytes);
            if source.length == 0 {
                continue;
            }
            let record = peer.desk.key(source.key);
            let pd = record.pd.load(Ordering::Relaxed);
            let claim = Claim {
                key: source.key,
                pd,
                queue_pair: 0,
                access: 0,
            };
            let granted = grant(record, claim, source.address, u64::from(source.length))
                .map_err(|_| Errno::EFAULT)?;
            if offset + u64::from(source.length) > runs.total() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the place lies in the peer's memory as its own desk says, checked against the arena's length; the
            // buffers are registered.
            unsafe { runs.fetch(offset as usize, peer, granted)? };
            offset += u64::from(source.length);
        }
        Ok(())
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

    fn serve_write(&self, queue_pair: &Arc<Qp>) -> Result<Option<Delivered>, Failure> {
        let header = &self.record.header;
        let key = header.word as u32;
        let length = u64::from(header.length);
        {
            let receive = queue_pair.lock_receive();
            if receive
                .arrival
                .discard_until
                .is_some_and(|awaited| awaited != header.psn)
            {
                return Ok(None);
            }
        }
        if length > 0 {
            let place = self.grant(
                queue_pair,
                key,
                IBV_ACCESS_REMOTE_WRITE,
                header.address,
                length,
            )?;
            self.store(place)
                .map_err(|_| Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL))?;
        }
        if header.flags & IMMEDIATE == 0 || header.flags & LAST == 0 {
            return Ok(None);
        }
        // The bytes are in place; the receive queue learns of the whole message.
        let notice = Header {
            flags: header.flags | FIRST,
            word: header.word >> 32,
            ..*header
        };
        let record = Record {
            header: notice,
            payload: self.record.payload,
        };
        Call {
            record: &record,
            ..*self
        }
        .serve_message(queue_pair)
    }

    /// Into our own memory. What lies outside the arena goes through the kernel: the application may have unmapped it.
    fn store(&self, place: Place<'_>) -> Result<(), Errno> {
        let mut from = self.record.payload;
        for piece in place.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the payload's length; arena offsets come from our own table.
            unsafe {
                match (piece, &self.process.arena) {
                    (Piece::Null { .. }, _) => (),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::deposit(from, arena.pointer(offset), length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
                    (Piece::Address { address, .. }, _) => {
                        own_memory::store(address, from, length)?;
                    }
                }
                from = from.add(length);
            }
        }
        Ok(())
    }

    /// Out of our own memory, as [`Call::store`].
    fn load(&self, place: Place<'_>, target: *mut u8) -> Result<(), Errno> {
        let mut to = target;
        for piece in place.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the room that the caller has; arena offsets come from our own table.
            unsafe {
                match (piece, &self.process.arena) {
                    (Piece::Null { .. }, _) => to.write_bytes(0, length),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::copy(arena.pointer(offset), to, length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
                    (Piece::Address { address, .. }, _) => {
                        own_memory::load(address, to, length)?;
                    }
                }
                to = to.add(length);
            }
        }
        Ok(())
    }

    fn serve_read(&self, queue_pair: &Arc<Qp>, serving: &mut Serving) -> Result<Progress, Failure> {
        let header = &self.record.header;
        if self.is_discarded(queue_pair) {
            return Ok(Progress::Done(None));
        }
        let (total, key) = (header.word, header.immediate);
        let answers = self.inbound.channel.answers();
        loop {
            let offset = serving.read_progress;
            let length = total.saturating_sub(offset).min(MAX_PAYLOAD as u64);
            if !serving.answers.has_room(&answers, length as usize) {
                return Ok(Progress::Blocked);
            }
            let mut loaded = Ok(());
            let answer = Header {
                kind: READ_DATA,
                word: offset,
                ..self.answer()
            };
            if length > 0 {
                let begun = self.grant(
                    queue_pair,
                    key,
                    IBV_ACCESS_REMOTE_READ,
                    header.address.wrapping_add(offset),
                    total - offset,
                );
                let place = match begun {
                    Ok(_) => self.grant(
                        queue_pair,
                        key,
                        IBV_ACCESS_REMOTE_READ,
                        header.address.wrapping_add(offset),
                        length,
                    )?,
                    Err(failure) => {
                        serving.read_progress = 0;
                        return Err(failure);
                    }
                };
                serving
                    .answers
                    .push(&answers, answer, length as usize, |target| {
                        loaded = self.load(place, target);
                    });
            } else {
                serving.answers.push(&answers, answer, 0, |_| ());
            }
            if loaded.is_err() {
                // What was pushed is not whole, so the requester still waits and takes the refusal.
                serving.read_progress = 0;
                return Err(Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL));
            }
            serving.read_progress = offset + length;
            if serving.read_progress >= total {
                serving.read_progress = 0;
                return Ok(Progress::Done(None));
            }
        }
    }

    fn is_discarded(&self, queue_pair: &Qp) -> bool {
        queue_pair.lock_receive().arrival.discard_until.is_some()
    }

    fn serve_atomic(&self, queue_pair: &Arc<Qp>, serving: &mut Serving) -> Result<(), Failure> {
        let header = &self.record.header;
        if self.is_discarded(queue_pair) {
            return Ok(());
        }
        let invalid = || Failure::fatal(INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        let mut words = [0u64; 3];
        if header.length as usize != size_of_val(&words) || !header.address.is_multiple_of(8) {
            return Err(invalid());
        }
        // SAFETY: the record holds 24 bytes of payload (just checked), and so does the array.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(self.record.payload, 24);
        }
        let [compare_add, operand, code] = words.map(u64::from_le);
        let operation = Atomic::of_code(code, compare_add, operand).ok_or_else(invalid)?;
        let right = if code == ATOMIC_WRITE {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            IBV_ACCESS_REMOTE_ATOMIC
        };
        let place = self.grant(queue_pair, header.immediate, right, header.address, 8)?;
        let found = self
            .perform(operation, place)
            .map_err(|_| Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL))?;
        let answer = Header {
            kind: ATOMIC_RESULT,
            word: found,
            ..self.answer()
        };
        serving
            .answers
            .push(&self.inbound.channel.answers(), answer, 0, |_| ());
        Ok(())
    }

    fn perform(&self, operation: Atomic, place: Place<'_>) -> Result<u64, Errno> {
        let piece = place.pieces().next().ok_or(Errno::EFAULT)?;
        let target = match (piece, &self.process.arena) {
            (
                Piece::Arena {
                    offset, length: 8, ..
                },
                Some(arena),
            ) => arena.pointer(offset),
            (Piece::Address { address, length: 8 }, _) => {
                let mut probe = [0u8; 8];
                // SAFETY: 8 writable bytes; the kernel checks the address, which the application may have unmapped.
                unsafe {
                    own_memory::load(address, probe.as_mut_ptr(), 8)?;
                }
                address as *mut u8
            }
            _ => return Err(Errno::EFAULT),
        };
        if !(target as usize).is_multiple_of(8) {
            return Err(Errno::EINVAL);
        }
        Ok(operation.perform(target))
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
            cq.push(
                Completion {
                    wc,
                    timestamp: 0,
                    retire: None,
                },
                true,
            );
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
