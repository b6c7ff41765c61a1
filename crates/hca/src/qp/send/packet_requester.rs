//! Requester of a queue pair that uses packets: `verbena-transport`'s state machine on top of the
//! send queue's requests, the program's buffers and a [`Path`].
//!
//! The state machine tracks requests that were sent and are not complete. The send queue keeps the
//! requests themselves, from which data is gathered whenever a packet is made, also for
//! retransmission. A complete request is in neither, so its buffers are not accessed again.

use super::SendQueue;
use super::request::RequestStage;
use crate::qp::Qp;
use crate::qp::requester::outcome::{Outcome, beyond_limit};
use crate::qp::send::SendRequest;
use crate::qp::terms::{is_answered, status_code};
use crate::roce::fallback::reachability::slot_address_of_queue_pair;
use crate::roce::fallback::thread::examine_udp;
use crate::roce::packet::ReceivedPacket;
use crate::roce::path::Path;
use crate::roce::tx_batch::TxBatch;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::clock;
use verbena_transport::completion::SendCompletion;
use verbena_transport::reliable::{Reliable, Requester, requester};
use verbena_transport::request::{
    Addressee, Fence, Operation, Remote, SendRequest as Request, SendTail, WorkId, check_word,
};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::unreliable;
use verbena_transport::{AtomicOperation, Disposition, Instant, LocalError, RequesterAccess};
use verbena_wire::immediate::Immediate;
use verbena_wire::{AckTimeout, EmitError, Mtu, PKey, Psn, Qpn, RKey, SrqNumber};

/// Most unacknowledged packets in flight: as many as in Linux' rxe.
pub(in crate::qp) const WINDOW: u32 = 128;

/// Requester state of a queue pair whose peer is on another host.
pub(in crate::qp) struct PacketRequester {
    path: Path,
    machine: RequesterMachine,
    /// Expiry of the timer that is set.
    alarm: Option<u64>,
    /// Whether the peer has ever answered on this path.
    is_answered: bool,
}

enum RequesterMachine {
    Reliable(Box<Requester>),
    Unreliable(unreliable::Requester),
}

impl PacketRequester {
    /// Creates the requester of a connected queue pair that becomes ready to send. None for a type
    /// without one.
    pub(in crate::qp) fn connect(
        kind: ibv_qp_type,
        attributes: &ibv_qp_attr,
        path: Path,
    ) -> Option<PacketRequester> {
        let destination = Qpn::new(attributes.dest_qp_num);
        let mtu = mtu_of(attributes);
        let initial_psn = Psn::new(attributes.sq_psn);
        let capacity = usize::MAX;
        let service = match kind {
            IBV_QPT_RC => Reliable::Rc,
            IBV_QPT_XRC_SEND => Reliable::Xrc,
            IBV_QPT_UC => {
                let machine = unreliable::Requester::new(unreliable::Configuration {
                    service: unreliable::Service::Connected(destination),
                    partition_key: PKey::DEFAULT,
                    mtu,
                    initial_psn,
                    capacity,
                });
                return Some(PacketRequester {
                    path,
                    machine: RequesterMachine::Unreliable(machine),
                    alarm: None,
                    is_answered: false,
                });
            }
            _ => return None,
        };
        let (ack_timeout, retry_count, rnr_retry) = retries_of(attributes);
        let machine = Requester::new(requester::Configuration {
            service,
            destination,
            partition_key: PKey::DEFAULT,
            mtu,
            initial_psn,
            ack_timeout,
            retry_count,
            rnr_retry,
            max_rd_atomic: attributes.max_rd_atomic.into(),
            window: WINDOW,
            capacity,
        });
        Some(PacketRequester {
            path,
            machine: RequesterMachine::Reliable(Box::new(machine)),
            alarm: None,
            is_answered: false,
        })
    }

    /// Applies attributes that may change while the queue pair is connected.
    pub(in crate::qp) fn configure(&mut self, attributes: &ibv_qp_attr) {
        if let RequesterMachine::Reliable(requester) = &mut self.machine {
            let (timeout, count, rnr) = retries_of(attributes);
            requester.set_retries(timeout, count, rnr);
            requester.set_max_rd_atomic(attributes.max_rd_atomic.into());
        }
    }

    /// Leaves the send queue error state.
    pub(in crate::qp) fn resume(&mut self) {
        if let RequesterMachine::Unreliable(requester) = &mut self.machine
            && requester.has_failed()
        {
            requester.resume();
        }
    }

    /// Handles a congestion notification. Only a reliable connection knows its packets in flight.
    pub(in crate::qp) fn congested(&mut self, received: &ReceivedPacket<'_>) {
        let is_of_peer = self.path.is_path_of(received);
        if let (RequesterMachine::Reliable(requester), true) = (&mut self.machine, is_of_peer) {
            requester.congested();
        }
    }

    fn post(&mut self, request: Request) -> bool {
        match &mut self.machine {
            RequesterMachine::Reliable(requester) => requester.post(request).is_ok(),
            RequesterMachine::Unreliable(requester) => requester.post(request).is_ok(),
        }
    }

    fn make(
        &mut self,
        now: Instant,
        access: &mut RequesterBuffers<'_>,
        room: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        match &mut self.machine {
            RequesterMachine::Reliable(requester) => requester.poll_transmit(now, access, room),
            RequesterMachine::Unreliable(requester) => {
                let made = requester.poll_transmit(access, room)?;
                Ok(made.map(|packet| packet.length))
            }
        }
    }

    /// Returns the PSN after the last packet sent, if the peer acknowledges packets.
    pub(in crate::qp) fn sent_until(&self) -> Option<Psn> {
        match &self.machine {
            RequesterMachine::Reliable(requester) => Some(requester.sent_until()),
            RequesterMachine::Unreliable(_) => None,
        }
    }

    /// Returns whether packets before this PSN are unacknowledged.
    pub(in crate::qp) fn awaits_acknowledgement(&self, until: Psn) -> bool {
        match &self.machine {
            RequesterMachine::Reliable(requester) => requester.awaits_acknowledgement(until),
            RequesterMachine::Unreliable(_) => false,
        }
    }

    /// Returns whether the first packets were not answered in time, so that possibly none arrives.
    fn is_unanswered(&self) -> bool {
        !self.is_answered && self.next_timeout().is_some_and(|at| at <= clock::now())
    }

    fn next_timeout(&self) -> Option<u64> {
        match &self.machine {
            RequesterMachine::Reliable(requester) => requester.next_timeout().map(|at| at.0),
            RequesterMachine::Unreliable(_) => None,
        }
    }
}

pub(in crate::qp) fn mtu_of(attributes: &ibv_qp_attr) -> Mtu {
    // The code was checked when the attribute was set.
    Mtu::from_code(attributes.path_mtu as u8).unwrap_or(Mtu::B1024)
}

/// Checked when the attributes were set, so the defaults are never used.
pub(super) fn retries_of(attributes: &ibv_qp_attr) -> (AckTimeout, RetryCount, RnrRetry) {
    (
        AckTimeout::from_code(attributes.timeout).unwrap_or(AckTimeout::INFINITE),
        RetryCount::new(attributes.retry_cnt).unwrap_or(const { RetryCount::new(7).unwrap() }),
        RnrRetry::new(attributes.rnr_retry).unwrap_or(RnrRetry::Infinite),
    )
}

fn now() -> Instant {
    Instant(clock::now())
}

impl Qp {
    /// Passes a request to the state machine. Its packets are made by [`Qp::transmit_packets`].
    #[cold]
    pub(in crate::qp) fn execute_by_packets(
        &self,
        send: &mut SendQueue,
        request: &SendRequest<'_>,
        index: u64,
    ) -> Outcome {
        // Those that wait have not begun, so that a drain does not start them.
        if is_answered(request.opcode)
            && let Some(outcome) = beyond_limit(&send.outstanding)
        {
            return outcome;
        }
        let Some(packets) = &mut send.packets else {
            return Outcome::NoAnswer;
        };
        let Some(operation) = operation(request) else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let word = matches!(
            operation,
            Operation::Atomic { .. } | Operation::AtomicWrite { .. }
        );
        if word && let Err(status) = check_word(request.length()) {
            return Outcome::Failed(status_code(status));
        }
        if matches!(operation, Operation::Read { .. } | Operation::Atomic { .. }) {
            // The answer's buffers must be valid before anything happens at the responder.
            let section = self.memory.own_marks().enter(0);
            if let Err(outcome) = self.runs(&section, request, IBV_ACCESS_LOCAL_WRITE) {
                return outcome;
            }
        }
        let is_xrc = self.kind == IBV_QPT_XRC_SEND;
        let posted = packets.post(Request {
            id: WorkId(index),
            operation,
            length: match operation {
                _ if word => 8,
                Operation::Flush { .. } => request.flush_length() as u32,
                _ => request.length() as u32,
            },
            addressee: match is_xrc {
                true => Addressee::SharedReceiveQueue(SrqNumber::new(request.srq)),
                false => Addressee::Connected,
            },
            // The send queue implements fences, and the limit of reads.
            fence: Fence::Off,
            solicited: request.is_solicited(),
        });
        if !posted {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let counters = self.process.counters.shard();
        match operation {
            Operation::Send(_) => counters.send_operations.add(1),
            Operation::Write { .. } => counters.write_operations.add(1),
            Operation::Read { .. } => counters.read_operations.add(1),
            Operation::Atomic { .. } | Operation::AtomicWrite { .. } => {
                counters.atomic_operations.add(1);
            }
            Operation::Flush { .. } => counters.other_operations.add(1),
        }
        counters.operation_bytes.add(request.length());
        counters.udp_path_operations.add(1);
        counters.udp_path_bytes.add(request.length());
        Outcome::Sent
    }

    /// Sends the packets that are due, and sets the timer.
    #[cold]
    pub(super) fn transmit_packets(self: &Arc<Qp>, send: &mut SendQueue) {
        // Taken out, because the state machine accesses the send queue.
        let Some(mut packets) = send.packets.take() else {
            return;
        };
        if packets.is_unanswered() {
            let slot_address = slot_address_of_queue_pair(Qpn::new(self.destination()));
            examine_udp(&self.process, &packets.path, slot_address);
        }
        let answers_behind = self.answers_behind();
        if !answers_behind {
            self.answer_first();
        }
        let mut access = RequesterBuffers {
            queue_pair: self,
            send,
            ended: false,
        };
        let mut made = 0;
        {
            let path = packets.path.clone();
            let mut tx_batch = TxBatch::new(&path);
            while let Ok(Some(length)) = packets.make(now(), &mut access, tx_batch.room()) {
                tx_batch.push(length);
                made += 1;
                if made == 1 && answers_behind {
                    self.answer_behind(&mut tx_batch);
                }
            }
        }
        let ended = access.ended;
        self.process.counters.shard().packets_sent.add(made);
        self.set_alarm(&mut packets);
        send.packets = Some(packets);
        if ended {
            self.transmit(send);
        }
    }

    /// Keeps one timer, the earliest: the next one is set when it expires.
    fn set_alarm(&self, packets: &mut PacketRequester) {
        if packets.alarm.is_some_and(|alarm| alarm <= clock::now()) {
            packets.alarm = None;
        }
        if let Some(deadline) = packets.next_timeout()
            && packets.alarm.is_none_or(|alarm| deadline < alarm)
        {
            packets.alarm = Some(deadline);
            self.set_timer(deadline);
        }
    }

    pub(crate) fn take_response(self: &Arc<Qp>, received: &ReceivedPacket<'_>) {
        let mut send = self.lock_send();
        let Some(mut packets) = send.packets.take() else {
            return;
        };
        let is_of_peer = packets.path.is_path_of(received);
        if is_of_peer && !packets.is_answered {
            packets.is_answered = true;
            packets.path.answered();
        }
        let mut access = RequesterBuffers {
            queue_pair: self,
            send: &mut send,
            ended: false,
        };
        let disposition = match &mut packets.machine {
            RequesterMachine::Reliable(requester) if is_of_peer => {
                requester.handle(&received.packet, now(), &mut access)
            }
            _ => Disposition::Duplicate,
        };
        let counters = self.process.counters.shard();
        match disposition {
            Disposition::Retry => counters.lost_retries.add(1),
            Disposition::ReceiverNotReady => counters.rnr_retries.add(1),
            _ => (),
        }
        send.packets = Some(packets);
        self.transmit(&mut send);
    }
}

/// The send queue and the program's buffers, as the state machine accesses them.
struct RequesterBuffers<'a> {
    queue_pair: &'a Qp,
    send: &'a mut SendQueue,
    ended: bool,
}

impl RequesterBuffers<'_> {
    fn position(&self, id: WorkId) -> Option<usize> {
        let first = self.send.pending.front()?.index;
        usize::try_from(id.0.checked_sub(first)?).ok()
    }

    /// Calls `action` with a request's buffers, which must allow `access`.
    fn with_runs(
        &self,
        id: WorkId,
        access: u32,
        action: impl FnOnce(&Runs<'_>) -> verbena_hca_os::errno::Result<()>,
    ) -> Result<(), LocalError> {
        let position = self.position(id).ok_or(LocalError)?;
        let one = self.send.pending.get(position).ok_or(LocalError)?;
        let section = self.queue_pair.memory.own_marks().enter(0);
        let request = one.request();
        let runs = self
            .queue_pair
            .runs(&section, &request, access)
            .map_err(|_| LocalError)?;
        action(&runs).map_err(|_| LocalError)
    }
}

impl RequesterAccess for RequesterBuffers<'_> {
    fn gather(&mut self, id: WorkId, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        self.with_runs(id, 0, |runs| {
            if u64::from(offset) + into.len() as u64 > runs.total() {
                return Err(verbena_hca_os::errno::Errno::EFAULT);
            }
            // SAFETY: `into` is writable for its length.
            unsafe { runs.gather(offset as usize, into.as_mut_ptr(), into.len()) }
        })
    }

    fn scatter(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        self.with_runs(id, IBV_ACCESS_LOCAL_WRITE, |runs| {
            // SAFETY: `bytes` is readable for its length.
            unsafe { runs.scatter(offset as usize, bytes.as_ptr(), bytes.len()) }
        })
    }

    fn complete(&mut self, completion: SendCompletion) {
        if let Some(position) = self.position(completion.id) {
            self.send.set_stage(
                position,
                RequestStage::Finished(status_code(completion.status)),
            );
            self.ended = true;
        }
    }
}

/// Returns the state machine's operation for a request; None for a local one.
pub(super) fn operation(request: &SendRequest<'_>) -> Option<Operation> {
    let remote = Remote {
        address: request.remote_address,
        key: RKey(request.rkey),
    };
    let immediate = Immediate(request.immediate.to_ne_bytes());
    Some(match request.opcode {
        IBV_WR_SEND => Operation::Send(SendTail::Nothing),
        IBV_WR_SEND_WITH_IMM => Operation::Send(SendTail::Immediate(immediate)),
        IBV_WR_SEND_WITH_INV => Operation::Send(SendTail::Invalidate(RKey(request.immediate))),
        IBV_WR_RDMA_WRITE => Operation::Write {
            remote,
            immediate: None,
        },
        IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
            remote,
            immediate: Some(immediate),
        },
        IBV_WR_RDMA_READ => Operation::Read { remote },
        IBV_WR_ATOMIC_CMP_AND_SWP => Operation::Atomic {
            remote,
            operation: AtomicOperation::CompareSwap {
                compare: request.compare_add,
                swap: request.swap,
            },
        },
        IBV_WR_ATOMIC_FETCH_AND_ADD => Operation::Atomic {
            remote,
            operation: AtomicOperation::FetchAdd {
                add: request.compare_add,
            },
        },
        IBV_WR_ATOMIC_WRITE => Operation::AtomicWrite { remote },
        IBV_WR_FLUSH => Operation::Flush {
            remote,
            feth: request.flush().into(),
        },
        _ => return None,
    })
}
