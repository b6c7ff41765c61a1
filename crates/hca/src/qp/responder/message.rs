//! Messages that take a receive: sends, and the notices of writes with immediate data.

use super::arrival::{Arrival, Arriving};
use super::{Call, Completing, Delivered, Failure};
use crate::errno::Errno;
use crate::memory::place::{Claim, grant};
use crate::memory::transfer::Runs;
use crate::qp::message::*;
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::{Receive, Srq};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;

impl Call<'_> {
    /// A message for the queue pair's own, or its shared, receive queue.
    pub(super) fn serve_message<'q>(
        &self,
        queue_pair: &'q Arc<Qp>,
    ) -> Result<Option<Delivered<'q>>, Failure> {
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
        let cq = queue_pair
            .recv_cq
            .as_ref()
            .map(|cq| Completing::QueuePair(cq));
        self.deliver(queue_pair.number, &mut receive.arrival, take, pd, timer, cq)
    }

    /// A message for an XRC shared receive queue of this process. The queue pair that it came for may be another's.
    pub(super) fn serve_xrc<'q>(
        &self,
        queue_pair: Option<&'q Arc<Qp>>,
    ) -> Result<Option<Delivered<'q>>, Failure> {
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
            Some(Completing::Shared(cq.clone())),
        )
    }

    fn deliver<'q>(
        &self,
        number: u32,
        arrival: &mut Arrival,
        take: impl FnOnce() -> Option<Receive>,
        pd: u32,
        timer: u8,
        cq: Option<Completing<'q>>,
    ) -> Result<Option<Delivered<'q>>, Failure> {
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
        self.mark(&mut wc, pd)
            .map_err(|()| fail(REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR))?;
        self.process.counters.shard().receive_operations.add(1);
        self.process.counters.shard().receive_bytes.add(total);
        Ok(cq.map(|cq| Delivered {
            cq,
            wc,
            solicited: header.flags & SOLICITED != 0,
        }))
    }

    /// Immediate data or invalidation.
    fn mark(&self, wc: &mut ibv_wc, pd: u32) -> Result<(), ()> {
        let header = &self.record.header;
        if header.flags & IMMEDIATE != 0 {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            wc.imm = ibv_wc_imm {
                imm_data: header.immediate,
            };
        }
        if header.flags & INVALIDATE != 0 {
            let window = self.process.windows.find(header.immediate).ok_or(())?;
            // The queue pair's domain; `pd` may be that of a shared receive queue.
            let queue_pair = self.process.queue_pairs.find(wc.qp_num);
            let pd = queue_pair.map_or(pd, |queue_pair| queue_pair.pd_number());
            window
                .invalidate(header.immediate, pd, wc.qp_num)
                .map_err(|_| ())?;
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
}
