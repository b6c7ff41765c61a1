//! Messages that consume a receive: sends, and notifications of writes with immediate data.

use super::explain;
use super::failure::Failure;
use super::fetch::NotFetched;
use super::message_state::{MessageState, PartialMessage};
use super::{Call, CompletionTarget, Delivered, HeldLock};
use crate::causes;
use crate::process::Cq;
use crate::qp::ring_message::{Body, Extra, Message, Nak, SharedQueue};
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::{Receive, ReceiveRing};
use crate::srq::Srq;
use std::sync::Arc;
use verbena_abi::*;
use verbena_faults::status::Status;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::refusal;
use verbena_transport::assembly;
use verbena_transport::fault::{Fault, Responder};
use verbena_wire::opcode::Kind;

/// Source of receives.
enum Receives<'a> {
    Own(&'a mut ReceiveRing),
    Shared(&'a Srq),
}

impl Receives<'_> {
    fn take(&mut self) -> Option<Receive> {
        match self {
            Receives::Own(ring) => ring.take(),
            Receives::Shared(srq) => srq.take(),
        }
    }

    /// Returns an unused receive to the head of the queue.
    fn put_back(&mut self, receive: Receive) {
        match self {
            Receives::Own(ring) => ring.put_back(receive),
            Receives::Shared(srq) => srq.put_back(receive),
        }
    }

    /// Counts a receive as consumed.
    fn note_used(&self) {
        if let Receives::Shared(srq) = self {
            srq.note_used();
        }
    }
}

struct Receiver<'a> {
    number: u32,
    pd: u32,
    rnr_timer: u8,
    kind: Responder,
    receives: Receives<'a>,
    /// Completion queue of receives that end before the message.
    cq: Option<&'a Cq>,
    /// Rules about the receives.
    causes: Option<&'a mut causes::Receives>,
}

impl Receiver<'_> {
    /// Returns the failure of a message with its receive, which a message that may be dropped does
    /// not take.
    fn fail(&mut self, fault: Fault, receive: Receive) -> Failure {
        let failure = Failure::by(fault);
        if failure.ends_receive(self.kind) {
            self.receives.note_used();
            return failure.with_receive(receive.wr_id);
        }
        self.receives.put_back(receive);
        failure
    }

    /// Returns the fault that a message is to find in the receive that it takes, by a rule.
    fn planted(&mut self, message: &Message) -> Option<Fault> {
        let causes = self.causes.as_mut()?;
        // Only bytes can exceed a receive, or lack access to it.
        if message.body == Body::InPlace || message.total == 0 {
            return None;
        }
        let status = causes.take()?;
        refusal::note(format_args!("{}", refusal::BY_RULE));
        Some(match status {
            Status::LocalLength => Fault::ReceiveTooSmall,
            _ => Fault::ReceiveProtection,
        })
    }
}

impl<'a> Call<'a> {
    /// Serves a message for the queue pair's own or shared receive queue.
    pub(super) fn serve_message(
        &self,
        queue_pair: &'a Arc<Qp>,
        message: &Message,
    ) -> Result<Option<Delivered<'a>>, Failure> {
        let mut guard = queue_pair.lock_receive();
        // Checked under the lock that a reset holds while it empties the queue.
        if !queue_pair.is_connected_to(&self.route) {
            return Err(Failure::no_answer());
        }
        let ReceiveQueue {
            ring,
            message_state,
            rnr_timer,
            causes,
            ..
        } = &mut *guard;
        let mut receiver = Receiver {
            number: queue_pair.number,
            pd: queue_pair
                .srq
                .as_ref()
                .map_or(queue_pair.pd_number(), |srq| srq.pd()),
            rnr_timer: *rnr_timer,
            kind: queue_pair.responder_kind(),
            receives: match &queue_pair.srq {
                Some(srq) => Receives::Shared(srq),
                None => Receives::Own(ring),
            },
            cq: queue_pair.recv_cq.as_deref(),
            causes: causes.as_deref_mut(),
        };
        if let Some(left) = message_state.begin_incarnation(self.route.source.incarnation) {
            receiver.receives.put_back(left);
        }
        let wc = self.deliver(&mut receiver, message_state, message)?;
        Ok(wc
            .zip(queue_pair.recv_cq.as_deref())
            .map(|(wc, cq)| Delivered {
                cq: CompletionTarget::QueuePair(cq),
                wc,
                solicited: message.solicited,
                _order: HeldLock::QueuePair(guard),
            }))
    }

    /// Serves a message for an XRC shared receive queue of this process. The queue pair that it was
    /// sent to may belong to another process.
    pub(super) fn serve_xrc(
        &self,
        queue_pair: Option<&'a Arc<Qp>>,
        message: &Message,
        shared: SharedQueue,
    ) -> Result<Option<Delivered<'a>>, Failure> {
        if let Some(queue_pair) = queue_pair {
            if !queue_pair.is_connected_to(&self.route) {
                return Err(Failure::no_answer());
            }
            queue_pair.establish();
        }
        let invalid = || {
            refusal::note(format_args!(
                "the message is for XRC SRQ {:#x}, which is not in the sender's XRC domain here",
                shared.number
            ));
            Failure::by(Fault::NoSharedReceiveQueue)
        };
        let srq: Arc<Srq> = self.process.srqs.find(shared.number).ok_or_else(invalid)?;
        let (xrcd, cq) = srq.xrc().ok_or_else(invalid)?;
        if xrcd.identity() != shared.domain {
            return Err(invalid());
        }
        let mut states = self
            .process
            .xrc_message_states
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        let (process, source) = (self.inbound.peer.identity, self.route.source);
        let message_state = states.of(process, &self.route);
        let mut receiver = Receiver {
            number: self.route.destination.number,
            pd: srq.pd(),
            rnr_timer: shared.rnr_timer,
            kind: Responder::Reliable,
            receives: Receives::Shared(&srq),
            cq: None,
            causes: None,
        };
        let delivered = self.deliver(&mut receiver, message_state, message);
        states.forget_if_complete(process, source.number);
        let cq: Arc<Cq> = cq.clone();
        let delivered = delivered.map_err(|failure| failure.in_queue(&cq))?;
        Ok(delivered.map(|wc| Delivered {
            cq: CompletionTarget::Shared(cq),
            wc,
            solicited: message.solicited,
            _order: HeldLock::Shared(states),
        }))
    }

    /// Takes a receive for a message, or continues with the one already taken, and stores the
    /// message's bytes. Returns the completion when the message is complete.
    fn deliver(
        &self,
        receiver: &mut Receiver<'_>,
        message_state: &mut MessageState,
        message: &Message,
    ) -> Result<Option<ibv_wc>, Failure> {
        if message_state.drops_message(self.route.psn, message.place.begins()) {
            return Ok(None);
        }
        let mut current = self.receive_for(receiver, message_state, message)?;
        match self.store_part(receiver, &mut current, message) {
            Ok(()) => (),
            Err(NotStored::Failed(fault)) => return Err(receiver.fail(fault, current.receive)),
            Err(NotStored::Ended) => {
                receiver.receives.put_back(current.receive);
                return Ok(None);
            }
            Err(NotStored::Moving) => {
                receiver.receives.put_back(current.receive);
                if receiver.kind == Responder::Reliable {
                    message_state.await_again(self.route.psn);
                }
                return Err(Failure::no_answer());
            }
            Err(NotStored::Source) => {
                receiver.receives.put_back(current.receive);
                return Err(Failure::answered(Nak::SourceProtection));
            }
        }
        if !message.place.ends() {
            message_state.current = Some(current);
            return Ok(None);
        }
        let mut wc = ibv_wc {
            wr_id: current.receive.wr_id,
            status: IBV_WC_SUCCESS,
            opcode: match message.body {
                Body::InPlace => IBV_WC_RECV_RDMA_WITH_IMM,
                Body::Here | Body::AtRequester => IBV_WC_RECV,
            },
            byte_len: message.total,
            qp_num: receiver.number,
            src_qp: self.route.source.number,
            slid: crate::device::LID,
            ..ibv_wc::default()
        };
        self.note_extra(receiver, message, &mut wc)
            .map_err(|()| receiver.fail(Fault::Invalidate, current.receive))?;
        receiver.receives.note_used();
        let counters = self.process.counters.shard();
        counters.receive_operations.add(1);
        counters.receive_bytes.add(message.total.into());
        Ok(Some(wc))
    }

    /// Returns the receive for a part of a message: that of its earlier parts, or the next one.
    fn receive_for(
        &self,
        receiver: &mut Receiver<'_>,
        message_state: &mut MessageState,
        message: &Message,
    ) -> Result<PartialMessage, Failure> {
        let current = message_state.current.take();
        let begun = current.is_some().then_some(Kind::Send);
        match (
            assembly::sequence(begun, Kind::Send, message.place),
            current,
        ) {
            (Ok(()), Some(current)) => return Ok(current),
            (Ok(()), None) => (),
            (Err(fault), None) => return Err(Failure::by(fault)),
            (Err(fault), Some(unfinished)) => {
                let failure = receiver.fail(fault, unfinished.receive);
                if receiver.kind == Responder::Reliable {
                    return Err(failure);
                }
                // The rest of that message was lost; this one begins another (class D1 and E).
                if let (Some((wr_id, status)), Some(cq)) =
                    (failure.failed_receive(receiver.kind), receiver.cq)
                {
                    self.complete(cq, wr_id, status);
                }
            }
        }
        let Some(receive) = receiver.receives.take() else {
            if receiver.kind == Responder::Reliable {
                message_state.await_again(self.route.psn);
            }
            return Err(Failure::not_ready(receiver.rnr_timer));
        };
        if let Some(fault) = receiver.planted(message) {
            return Err(receiver.fail(fault, receive));
        }
        if message.body != Body::InPlace {
            let (arriving, room) = (message.total.into(), receive.sges.length());
            if let Err(fault) = assembly::fits(arriving, room) {
                let failure = receiver.fail(fault, receive);
                if failure.ends_receive(receiver.kind) {
                    explain::note_length(arriving, room);
                }
                return Err(failure);
            }
        }
        Ok(PartialMessage { receive, offset: 0 })
    }

    /// Stores the bytes of a part in the receive's buffers.
    fn store_part(
        &self,
        receiver: &Receiver<'_>,
        current: &mut PartialMessage,
        message: &Message,
    ) -> Result<(), NotStored> {
        let length = u64::from(self.record.header.length);
        if message.body == Body::InPlace || message.total == 0 {
            return Ok(());
        }
        let sges = current.receive.sges.as_slice();
        let failed = || {
            explain::note_buffers(self.memory(), receiver.pd, sges);
            NotStored::Failed(Fault::ReceiveProtection)
        };
        let section = self.inbound.section(0);
        let runs = Runs::resolve(
            &section,
            self.memory(),
            receiver.pd,
            sges,
            verbena_abi::IBV_ACCESS_LOCAL_WRITE,
        )
        .map_err(|_| failed())?;
        if message.body == Body::AtRequester {
            return self.fetch(&section, &runs).map_err(|reason| match reason {
                NotFetched::Ended => NotStored::Ended,
                NotFetched::Moving => NotStored::Moving,
                NotFetched::Source => NotStored::Source,
                NotFetched::Target => failed(),
            });
        }
        let (arrived, part, total) = (
            current.offset,
            u32::from(self.record.header.length),
            message.total,
        );
        let arrived_then =
            assembly::written(message.place, arrived, part, total).map_err(|fault| {
                explain::note_length(u64::from(arrived) + length, total.into());
                NotStored::Failed(fault)
            })?;
        // SAFETY: the record holds `length` bytes of payload, checked by the ring.
        unsafe { runs.scatter(arrived as usize, self.record.payload, length as usize) }
            .map_err(|_| failed())?;
        current.offset = arrived_then;
        Ok(())
    }

    /// Handles immediate data or invalidation.
    fn note_extra(
        &self,
        receiver: &Receiver<'_>,
        message: &Message,
        wc: &mut ibv_wc,
    ) -> Result<(), ()> {
        match message.extra {
            Extra::None => (),
            Extra::Immediate(imm_data) => {
                wc.wc_flags |= IBV_WC_WITH_IMM;
                wc.imm = ibv_wc_imm { imm_data };
            }
            Extra::Invalidate(key) => {
                let window = self.memory().windows().find(key).ok_or(())?;
                window
                    .invalidate(key, receiver.pd, receiver.number)
                    .map_err(|_| ())?;
                wc.wc_flags |= IBV_WC_WITH_INV;
                wc.imm = ibv_wc_imm {
                    invalidated_rkey: key,
                };
            }
        }
        Ok(())
    }
}

/// Reason why the bytes of a message were not stored.
#[derive(Clone, Copy)]
enum NotStored {
    /// The message violates a rule, or the receive's buffers are not accessible.
    Failed(Fault),
    /// The requester ended the request, which is then ignored.
    Ended,
    /// The requester's buffers cannot be reached at the moment; handled as a lost packet.
    Moving,
    /// The requester's own buffers cannot be read.
    Source,
}
