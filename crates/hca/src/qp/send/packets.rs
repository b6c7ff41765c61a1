//! Requests to another host: a send queue's requests, executed by its packet requester, and the
//! packets that this makes and takes.

use super::SendQueue;
use super::altered_packets::alter;
use super::packet_requester::{PacketRequester, RequesterMachine};
use super::request::{PendingRequest, RequestStage};
use crate::qp::Qp;
use crate::qp::requester::outcome::{Outcome, beyond_limit};
use crate::qp::send::SendRequest;
use crate::qp::terms::{answer_to, is_answered, status_code};
use crate::roce::fallback::reachability::slot_address_of_queue_pair;
use crate::roce::fallback::thread::examine_udp;
use crate::roce::packet::ReceivedPacket;
use crate::roce::sender;
use crate::roce::tx_batch::TxBatch;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::clock;
use verbena_transport::completion::Status;
use verbena_transport::request::{
    Addressee, Operation, Remote, SendRequest as Request, SendTail, Sequence, check_word,
};
use verbena_transport::{
    AtomicOperation, Disposition, Instant, LocalError, ReliableRequesterAccess, RequesterAccess,
};
use verbena_wire::immediate::Immediate;
use verbena_wire::{Psn, QKey, Qpn, RKey, SrqNumber};

fn now() -> Instant {
    Instant(clock::now())
}

impl Qp {
    /// Checks a request that begins; [`Qp::transmit_packets`] makes its packets.
    #[cold]
    pub(in crate::qp) fn execute_by_packets(
        &self,
        send: &SendQueue,
        request: &SendRequest<'_>,
    ) -> Outcome {
        // Those that wait have not begun, so that a drain does not start them.
        if is_answered(request.opcode)
            && let Some(outcome) = beyond_limit(&send.outstanding)
        {
            return outcome;
        }
        let Some(packets) = &send.packets else {
            return Outcome::NoAnswer;
        };
        let Some(executed) = self.packet_request(request) else {
            return Outcome::Failed(IBV_WC_LOC_QP_OP_ERR);
        };
        let operation = executed.operation;
        if is_word(operation)
            && let Err(status) = check_word(request.length())
        {
            return Outcome::Failed(status_code(status));
        }
        if matches!(operation, Operation::Read { .. } | Operation::Atomic { .. }) {
            // The answer's buffers must be valid before anything happens at the responder.
            let section = self.memory.own_marks().enter(0);
            if let Err(outcome) = self.runs(&section, request, IBV_ACCESS_LOCAL_WRITE) {
                return outcome;
            }
        }
        if !packets.accepts(&executed) {
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
            let slot_address = slot_address_of_queue_pair(Qpn::new(send.destination));
            examine_udp(&self.process, &packets.path, slot_address);
        }
        let answers_behind = self.answers_behind();
        if !answers_behind {
            self.answer_first();
        }
        let before = send.first_sent();
        let mut access = RequesterBuffers {
            queue_pair: self,
            send,
            ended: before,
        };
        let mut made = 0;
        // Rules are about single packets.
        let has_rules = self.link.is_some() || access.send.causes.is_some();
        {
            let path = packets.path.clone();
            let mut tx_batch = TxBatch::new(&path);
            while let Ok(Some(length)) = packets.make(now(), &mut access, tx_batch.room()) {
                let causes = access.send.causes.as_deref();
                if causes.is_some_and(|causes| alter(causes, &mut tx_batch.room()[..length])) {
                    continue;
                }
                match &self.link {
                    None => tx_batch.push(length),
                    Some(link) => {
                        self.push_on_link(link, access.send.port, &path, &mut tx_batch, length);
                    }
                }
                made += 1;
                if made == 1 && answers_behind {
                    self.answer_behind(&mut tx_batch);
                }
                if !has_rules {
                    made += packets.make_middles(now(), &mut access, &mut tx_batch);
                }
            }
        }
        let ended = access.ended > before;
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
        if is_of_peer && sender::is_ours(received.route.source_port) {
            packets.note_peer_is_like_us();
        }
        let ended = send.first_sent();
        let mut access = RequesterBuffers {
            queue_pair: self,
            send: &mut send,
            ended,
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
    /// Number of requests that the state machine has completed, and that an emulated adapter has
    /// not completed yet. They are before those sent, and leave the send queue afterwards.
    ended: usize,
}

impl RequesterBuffers<'_> {
    /// Returns the sent request at a position of the state machine.
    #[inline]
    fn sent(&self, at: usize) -> Option<&PendingRequest> {
        match at < self.send.sent {
            true => self.send.pending.get(self.ended + at),
            false => None,
        }
    }

    /// Calls `action` with a request's buffers, which must allow `access`.
    fn with_runs(
        &self,
        at: usize,
        access: u32,
        action: impl FnOnce(&Runs<'_>) -> Result<(), LocalError>,
    ) -> Result<(), LocalError> {
        let one = self.sent(at).ok_or(LocalError)?;
        let section = self.queue_pair.memory.own_marks().enter(0);
        let request = one.request();
        let runs = self
            .queue_pair
            .runs(&section, &request, access)
            .map_err(|_| LocalError)?;
        action(&runs)
    }
}

impl RequesterAccess for RequesterBuffers<'_> {
    #[inline]
    fn request(&self, at: usize) -> Option<Request> {
        self.queue_pair.packet_request(&self.sent(at)?.request())
    }

    fn gather(&mut self, at: usize, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        self.with_runs(at, 0, |runs| gather(runs, offset.into(), into))
    }

    fn gather_each<'p>(
        &mut self,
        at: usize,
        offset: u32,
        payloads: impl Iterator<Item = &'p mut [u8]>,
    ) -> Result<(), LocalError> {
        self.with_runs(at, 0, |runs| {
            let mut offset = u64::from(offset);
            for payload in payloads {
                offset += payload.len() as u64;
                gather(runs, offset - payload.len() as u64, payload)?;
            }
            Ok(())
        })
    }

    fn complete(&mut self, status: Status) {
        let stage = RequestStage::Finished(status_code(status));
        self.send.set_stage(self.ended, stage);
        self.ended += 1;
    }
}

impl ReliableRequesterAccess for RequesterBuffers<'_> {
    #[inline]
    fn sequence(&self, at: usize) -> Option<Sequence> {
        let one = self.sent(at)?;
        Some(Sequence {
            first: Psn::new(one.psn),
            packets: self.send.packets(one.opcode, one.sges.length()),
            answer: answer_to(one.opcode),
        })
    }

    fn scatter(&mut self, at: usize, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        self.with_runs(at, IBV_ACCESS_LOCAL_WRITE, |runs| {
            // SAFETY: `bytes` is readable for its length.
            unsafe { runs.scatter(offset as usize, bytes.as_ptr(), bytes.len()) }
                .map_err(|_| LocalError)
        })
    }
}

impl Qp {
    /// Returns a request as a state machine executes it; None for a local one.
    #[inline]
    pub(super) fn packet_request(&self, request: &SendRequest<'_>) -> Option<Request> {
        let operation = operation(request)?;
        Some(Request {
            operation,
            length: match operation {
                _ if is_word(operation) => 8,
                Operation::Flush { .. } => request.flush_length() as u32,
                _ => request.length() as u32,
            },
            addressee: match (self.kind, request.address) {
                (IBV_QPT_XRC_SEND, _) => Addressee::SharedReceiveQueue(SrqNumber::new(request.srq)),
                (IBV_QPT_UD, Some(address)) => Addressee::Datagram {
                    queue_pair: match address.is_multicast() {
                        true => Qpn::MULTICAST,
                        false => Qpn::new(request.remote_qpn),
                    },
                    queue_key: QKey(self.queue_key(request)),
                },
                _ => Addressee::Connected,
            },
            solicited: request.is_solicited(),
        })
    }
}

/// Copies bytes of a request's buffers, from `offset` on.
pub(super) fn gather(runs: &Runs<'_>, offset: u64, into: &mut [u8]) -> Result<(), LocalError> {
    if offset + into.len() as u64 > runs.total() {
        return Err(LocalError);
    }
    // SAFETY: `into` is writable for its length.
    unsafe { runs.gather(offset as usize, into.as_mut_ptr(), into.len()) }.map_err(|_| LocalError)
}

/// Returns whether an operation concerns one word of 8 bytes.
fn is_word(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Atomic { .. } | Operation::AtomicWrite { .. }
    )
}

/// Returns the state machine's operation for a request; None for a local one.
#[inline]
fn operation(request: &SendRequest<'_>) -> Option<Operation> {
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
