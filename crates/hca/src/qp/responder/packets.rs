//! Serving requests that arrive as packets: the packet responder's state machine on top of the
//! receive queue and the registered memory.
//!
//! Completions are pushed under the receive queue's lock, so no flush comes between a receive and
//! its completion. The state change that follows a fault is made after the lock is released, and
//! after the requester was answered: the state machine, which has failed already, drops packets
//! that arrive in between.

use super::explain::{self, event_name};
use super::flush;
use super::packet_responder::{PacketResponder, ResponderMachine, TakenReceive};
use crate::causes;
use crate::cq::Completion;
use crate::process::{Cq, Process};
use crate::qp::atomic::Atomic;
use crate::qp::flush::Flush;
use crate::qp::names::status_name;
use crate::qp::responder::atomic::perform;
use crate::qp::terms::{event_code, right_to, status_code, vendor_error};
use crate::qp::{Qp, ReceiveQueue};
use crate::receive::ReceiveRing;
use crate::roce::packet::ReceivedPacket;
use crate::roce::sender;
use crate::roce::tx_batch::TxBatch;
use crate::srq::Srq;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::resolve::{AccessRequest, ResolvedRange, grant};
use verbena_hca_memory::transfer::Runs;
use verbena_hca_os::{errno, refusal};
use verbena_hca_shm::section::Section;
use verbena_transport::completion::{ReceiveCompletion, Received, Status, Tail};
use verbena_transport::fault::{self, Consequence, Next};
use verbena_transport::reliable::Responder;
use verbena_transport::request::WorkId;
use verbena_transport::{
    Access, AccessError, AtomicOperation, Disposition, InvalidateError, LocalError, MemoryError,
    Receive, Region, ResponderAccess, Taken,
};
use verbena_wire::feth::Feth;
use verbena_wire::middles::Middles;
use verbena_wire::opcode::Kind;
use verbena_wire::packet::Packet;
use verbena_wire::{RKey, SrqNumber, aeth, bth};

/// Answer packets per call, before other work gets its turn.
const BATCH: usize = 256;
/// Bytes of an acknowledgement, from its BTH to its AETH.
const ACKNOWLEDGEMENT: usize = bth::LENGTH + aeth::LENGTH;

impl Qp {
    pub(crate) fn serve_packet(&self, received: &ReceivedPacket<'_>) {
        let mut guard = self.lock_receive();
        if !self.receives() {
            return;
        }
        let ReceiveQueue {
            ring,
            packets,
            causes,
            ..
        } = &mut *guard;
        let Some(PacketResponder {
            machine,
            taken,
            peer_is_like_us,
            ..
        }) = packets.as_deref_mut()
        else {
            return;
        };
        let path = match machine {
            ResponderMachine::Reliable(path, _) | ResponderMachine::Connected(path, _) => path,
            ResponderMachine::Datagram(_) => return,
        };
        if !path.is_path_of(received) {
            return;
        }
        *peer_is_like_us = sender::is_ours(received.route.source_port);
        let mut memory = ResponderMemory {
            queue_pair: self,
            ring,
            taken,
            header: None,
            causes: causes.as_deref_mut(),
        };
        let disposition = match machine {
            ResponderMachine::Reliable(_, responder) => {
                serve(responder, &received.packet, &mut memory)
            }
            ResponderMachine::Connected(_, responder) => {
                responder.handle(&received.packet, &mut memory)
            }
            ResponderMachine::Datagram(_) => return,
        };
        match disposition {
            Disposition::Accepted => self.establish(),
            Disposition::Refused(consequence) => {
                self.establish();
                self.carry_out(guard, consequence);
            }
            _ => (),
        }
    }

    /// Serves consecutive middle packets ([`crate::roce::adapter::QueuePair::serve_middles`]).
    pub(crate) fn serve_middles(&self, first: &ReceivedPacket<'_>, middles: &Middles<'_>) -> bool {
        if self.link.is_some() {
            return false;
        }
        let mut guard = self.lock_receive();
        if !self.receives() {
            return false;
        }
        let ReceiveQueue { ring, packets, .. } = &mut *guard;
        let Some(PacketResponder {
            machine: ResponderMachine::Reliable(path, responder),
            taken,
            peer_is_like_us,
            ..
        }) = packets.as_deref_mut()
        else {
            return false;
        };
        if !path.is_path_of(first) {
            return false;
        }
        let mut memory = ResponderMemory {
            queue_pair: self,
            ring,
            taken,
            header: None,
            causes: None,
        };
        let is_served = responder.handle_middles(middles, &mut memory);
        if is_served {
            *peer_is_like_us = sender::is_ours(first.route.source_port);
            self.establish();
        }
        is_served
    }

    /// Applies the consequences of a fault besides the answer: event and state.
    fn carry_out(
        &self,
        mut guard: verbena_hca_os::lock::Guard<'_, ReceiveQueue>,
        consequence: Consequence,
    ) {
        if consequence.next == Next::SameState {
            return;
        }
        self.report_fault(consequence.event.map_or("fails", event_name));
        self.answer(&mut guard);
        drop(guard);
        self.fail_as_responder(consequence.event.map(event_code));
    }

    /// Reports a refused request, before the program can see the consequences.
    #[cold]
    fn report_fault(&self, outcome: &str) {
        let why = refusal::noted();
        let why = why.unwrap_or_else(|| "the packets violate a rule of their transport".to_owned());
        refusal::report(format_args!(
            "queue pair {:#x}: request by packets: {outcome}: {why}",
            self.number
        ));
    }

    /// Returns whether an acknowledgement may follow a request in the same TX batch: the peer
    /// processes it first all the same.
    pub(in crate::qp) fn answers_behind(&self) -> bool {
        match self.lock_receive().packets.as_deref() {
            Some(packets) => packets.peer_is_like_us && packets.owes_no_response(),
            None => false,
        }
    }

    /// Sends pending acknowledgements before a request: a program that receives a reply may rely on
    /// the completion of its own earlier send (perftest with events does).
    pub(in crate::qp) fn answer_first(&self) {
        self.answer(&mut self.lock_receive());
    }

    /// Adds a pending acknowledgement to a TX batch, behind the first request packet, so that it
    /// costs neither end a call. It goes behind because only the last packet of a batch may be
    /// shorter; the receiver processes it first ([`crate::roce::receive`]). If it does not fit, it
    /// is sent before the batch.
    pub(in crate::qp) fn answer_behind(&self, tx_batch: &mut TxBatch<'_>) {
        match tx_batch.takes(ACKNOWLEDGEMENT) {
            true => self.answer_in(&mut self.lock_receive(), tx_batch),
            false => self.answer(&mut self.lock_receive()),
        };
    }

    /// Sends acknowledgements and responses. Returns whether more are pending.
    pub(crate) fn answer_by_packets(&self) -> bool {
        let mut guard = self.lock_receive();
        let more = self.answer(&mut guard);
        let revoked = match guard.packets.as_deref() {
            Some(PacketResponder {
                machine: ResponderMachine::Reliable(_, responder),
                ..
            }) => responder.revoked(),
            _ => None,
        };
        drop(guard);
        if let Some(fault) = revoked {
            // The right to read was revoked during the response, or the memory unmapped.
            let event = fault.consequence(fault::Responder::Reliable).event;
            self.report_fault(event.map_or("fails", event_name));
            self.fail_as_responder(event.map(event_code));
        }
        more
    }

    fn answer(&self, receive: &mut ReceiveQueue) -> bool {
        let path = match receive.packets.as_deref() {
            Some(PacketResponder {
                machine: ResponderMachine::Reliable(path, _),
                ..
            }) => path.clone(),
            _ => return false,
        };
        self.answer_in(receive, &mut TxBatch::new(&path))
    }

    /// As [`Qp::answer`], adding to a TX batch.
    fn answer_in(&self, receive: &mut ReceiveQueue, tx_batch: &mut TxBatch<'_>) -> bool {
        let port = receive.port;
        let ReceiveQueue { ring, packets, .. } = receive;
        let Some(PacketResponder {
            machine: ResponderMachine::Reliable(path, responder),
            taken,
            ..
        }) = packets.as_deref_mut()
        else {
            return false;
        };
        let mut access = ResponderMemory {
            queue_pair: self,
            ring,
            taken,
            header: None,
            causes: None,
        };
        let mut made = 0;
        while made < BATCH
            && let Ok(Some(length)) = responder.poll_transmit(&mut access, tx_batch.room())
        {
            match &self.link {
                None => tx_batch.push(length),
                Some(link) => self.push_on_link(link, port, path, tx_batch, length),
            }
            made += 1;
        }
        self.process.counters.shard().packets_sent.add(made as u64);
        made == BATCH
    }

    pub(crate) fn take_datagram_packet(&self, received: &ReceivedPacket<'_>) {
        let mut guard = self.lock_receive();
        let payload = received.packet.payload.len() as u64;
        let Some(deth) = received.packet.headers.extensions.deth else {
            return;
        };
        if !self.admits_datagram(&guard, received.port, deth.queue_key, payload) {
            return;
        }
        let ReceiveQueue { ring, packets, .. } = &mut *guard;
        let Some(PacketResponder {
            machine: ResponderMachine::Datagram(responder),
            taken,
            ..
        }) = packets.as_deref_mut()
        else {
            return;
        };
        let mut access = ResponderMemory {
            queue_pair: self,
            ring,
            taken,
            header: Some(crate::roce::header::kind(received.destination)),
            causes: None,
        };
        let route = crate::roce::header::of(received.route, &received.packet);
        let disposition = responder.handle(&received.packet, &route, &mut access);
        if let Disposition::Refused(consequence) = disposition {
            self.carry_out(guard, consequence);
        }
    }

    /// Returns the XRC shared receive queue with a number, if it is in the queue pair's domain.
    fn queue_of_domain(&self, number: SrqNumber) -> Option<Arc<Srq>> {
        let xrcd = self.xrcd.as_ref()?;
        let srq = self.process.srqs.find(number.value())?;
        let is_its = srq.xrc().is_some_and(|(own, _)| own.is_same(xrcd));
        is_its.then_some(srq)
    }
}

/// Serves a request, and then early requests that waited for it.
fn serve(
    responder: &mut Responder,
    packet: &Packet<'_>,
    memory: &mut ResponderMemory<'_>,
) -> Disposition {
    memory.find_shared_queue(packet);
    let mut disposition = responder.handle(packet, memory);
    while let Some(early) = responder.next_early(memory) {
        memory.find_shared_queue(&early.packet());
        disposition = responder.handle(&early.packet(), memory);
    }
    disposition
}

/// Stores the payloads of packets from `offset` on.
fn scatter_each(runs: &Runs<'_>, offset: usize, middles: &Middles<'_>) -> errno::Result<()> {
    let mut offset = offset;
    for payload in middles.payloads() {
        // SAFETY: `payload` is readable for its length; bytes beyond the runs are not stored.
        unsafe { runs.scatter(offset, payload.as_ptr(), payload.len()) }?;
        offset += payload.len();
    }
    Ok(())
}

/// The receive queue and the registered memory, as the state machine accesses them.
struct ResponderMemory<'a> {
    queue_pair: &'a Qp,
    ring: &'a mut ReceiveRing,
    taken: &'a mut TakenReceive,
    /// Header type that completions report, if receives begin with a header.
    header: Option<u8>,
    /// Rules about the receives.
    causes: Option<&'a mut causes::Receives>,
}

/// Identifier of the taken receive; there is never more than one.
const TAKEN_RECEIVE: WorkId = WorkId(0);

impl ResponderMemory<'_> {
    /// Looks up the shared receive queue that an XRC request names. Not in the middle of a message,
    /// which stays with the queue that its receive was taken from.
    fn find_shared_queue(&mut self, packet: &Packet<'_>) {
        self.taken.is_of_send = packet.headers.bth.opcode.operation().kind() == Kind::Send
            && !packet.payload.is_empty();
        if let (Some(header), None) = (packet.headers.extensions.xrceth, &self.taken.receive) {
            self.taken.shared = self.queue_pair.queue_of_domain(header.srq);
        }
    }

    fn memory(&self) -> &ProcessMemory {
        &self.queue_pair.memory
    }

    fn process(&self) -> &Process {
        &self.queue_pair.process
    }

    /// Returns the protection domain that the memory of a request must belong to: the queue pair's,
    /// or for XRC, whose responder has none, that of the shared receive queue in the request (annex
    /// A14).
    fn domain(&self) -> Option<u32> {
        match &self.queue_pair.xrcd {
            None => Some(self.queue_pair.pd_number()),
            Some(_) => self.taken.shared.as_ref().map(|srq| srq.pd()),
        }
    }

    /// Returns the protection domain that a receive's buffers must belong to.
    fn receive_domain(&self) -> u32 {
        let shared = self.taken.shared.as_ref().or(self.queue_pair.srq.as_ref());
        shared.map_or(self.queue_pair.pd_number(), |srq| srq.pd())
    }

    /// Resolves a range of local memory that the queue pair and the key allow the peer to access.
    fn grant<'s>(
        &'s self,
        section: &'s Section<'_>,
        region: Region,
        right: u32,
    ) -> Result<ResolvedRange<'s>, AccessError> {
        let record = self.memory().contexts().queue_pair(self.queue_pair.number);
        if record.access.load(Ordering::Relaxed) & right == 0 {
            return Err(AccessError);
        }
        let access_request = AccessRequest {
            key: region.key.0,
            pd: self.domain().ok_or(AccessError)?,
            queue_pair: self.queue_pair.number,
            access: right,
        };
        let key = self.memory().keys().named_record(region.key.0);
        let (address, length) = (region.address, region.length.into());
        grant(section, key, access_request, address, length).map_err(|_| {
            explain::note_access_request(key, access_request, address, length);
            AccessError
        })
    }

    fn perform(&self, region: Region, right: u32, operation: Atomic) -> Result<u64, MemoryError> {
        let section = self.memory().own_marks().enter(region.key.0);
        let range = self
            .grant(&section, region, right)
            .map_err(|_| MemoryError::Access)?;
        perform(self.memory(), operation, range).map_err(|_| MemoryError::Operation)
    }

    /// Calls `action` with the buffers of the taken receive.
    fn with_receive(
        &self,
        action: impl FnOnce(&Runs<'_>) -> errno::Result<()>,
    ) -> Result<(), LocalError> {
        let receive = self.taken.receive.as_ref().ok_or(LocalError)?;
        if self.taken.planted.is_some() {
            return Err(LocalError);
        }
        let section = self.memory().own_marks().enter(0);
        let (domain, sges) = (self.receive_domain(), receive.sges.as_slice());
        let unusable = || {
            explain::note_buffers(self.memory(), domain, sges);
            LocalError
        };
        let access = IBV_ACCESS_LOCAL_WRITE;
        let runs =
            Runs::resolve(&section, self.memory(), domain, sges, access).map_err(|_| unusable())?;
        action(&runs).map_err(|_| unusable())
    }

    /// Returns the completion queue of the taken receive.
    fn completion_queue(&self) -> Option<&Cq> {
        match self.taken.shared.as_ref().and_then(|srq| srq.xrc()) {
            Some((_, cq)) => Some(cq),
            None => self.queue_pair.recv_cq.as_deref(),
        }
    }

    fn note_used(&self) {
        let shared = self.taken.shared.as_ref().or(self.queue_pair.srq.as_ref());
        if let Some(srq) = shared {
            srq.note_used();
        }
    }
}

impl ResponderAccess for ResponderMemory<'_> {
    fn supports(&mut self, access: Access) -> bool {
        let record = self.memory().contexts().queue_pair(self.queue_pair.number);
        let (allowed, right) = (record.access.load(Ordering::Relaxed), right_to(access));
        if allowed & right == 0 {
            explain::note_right(allowed, right);
        }
        allowed & right != 0
    }

    fn has_queue(&mut self, _: SrqNumber) -> bool {
        self.taken.shared.is_some()
    }

    fn check(&mut self, region: Region, access: Access) -> Result<(), AccessError> {
        let section = self.memory().own_marks().enter(region.key.0);
        self.grant(&section, region, right_to(access)).map(drop)
    }

    fn write(&mut self, region: Region, bytes: &[u8]) -> Result<(), MemoryError> {
        let section = self.memory().own_marks().enter(region.key.0);
        let range = self
            .grant(&section, region, IBV_ACCESS_REMOTE_WRITE)
            .map_err(|_| MemoryError::Access)?;
        let runs = Runs::of(&section, self.memory(), range);
        // SAFETY: `bytes` is readable for its length, which equals the range's.
        unsafe { runs.scatter(0, bytes.as_ptr(), bytes.len()) }.map_err(|_| MemoryError::Operation)
    }

    fn write_each(&mut self, region: Region, middles: &Middles<'_>) -> Result<(), MemoryError> {
        let section = self.memory().own_marks().enter(region.key.0);
        let range = self
            .grant(&section, region, IBV_ACCESS_REMOTE_WRITE)
            .map_err(|_| MemoryError::Access)?;
        let runs = Runs::of(&section, self.memory(), range);
        scatter_each(&runs, 0, middles).map_err(|_| MemoryError::Operation)
    }

    fn read(&mut self, region: Region, into: &mut [u8]) -> Result<(), MemoryError> {
        let section = self.memory().own_marks().enter(region.key.0);
        let range = self
            .grant(&section, region, IBV_ACCESS_REMOTE_READ)
            .map_err(|_| MemoryError::Access)?;
        let runs = Runs::of(&section, self.memory(), range);
        // SAFETY: `into` is writable for its length, which equals the range's.
        unsafe { runs.gather(0, into.as_mut_ptr(), into.len()) }.map_err(|_| MemoryError::Operation)
    }

    fn atomic(&mut self, region: Region, operation: AtomicOperation) -> Result<u64, MemoryError> {
        let operation = match operation {
            AtomicOperation::CompareSwap { compare, swap } => Atomic {
                opcode: IBV_WR_ATOMIC_CMP_AND_SWP,
                compare_add: compare,
                operand: swap,
            },
            AtomicOperation::FetchAdd { add } => Atomic {
                opcode: IBV_WR_ATOMIC_FETCH_AND_ADD,
                compare_add: add,
                operand: 0,
            },
        };
        self.perform(region, IBV_ACCESS_REMOTE_ATOMIC, operation)
    }

    fn atomic_write(&mut self, region: Region, bytes: [u8; 8]) -> Result<(), MemoryError> {
        let operation = Atomic {
            opcode: IBV_WR_ATOMIC_WRITE,
            compare_add: 0,
            operand: u64::from_ne_bytes(bytes),
        };
        self.perform(region, IBV_ACCESS_REMOTE_WRITE, operation)
            .map(drop)
    }

    fn flush(&mut self, region: Region, feth: Feth) -> Result<(), AccessError> {
        let section = self.memory().own_marks().enter(region.key.0);
        let flush = Flush::from(feth);
        let access_request = AccessRequest {
            key: region.key.0,
            pd: self.domain().ok_or(AccessError)?,
            queue_pair: self.queue_pair.number,
            access: flush.access(),
        };
        let key = self.memory().keys().named_record(region.key.0);
        let range = (region.address, region.length.into());
        flush::check(&section, key, access_request, flush, range).map_err(|_| AccessError)
    }

    fn take_receive(&mut self, shared: Option<SrqNumber>) -> Taken {
        let is_xrc = self.queue_pair.kind == IBV_QPT_XRC_RECV;
        let taken = match (shared, &self.taken.shared, &self.queue_pair.srq) {
            (Some(_), Some(srq), _) if is_xrc => srq.take(),
            _ if is_xrc => return Taken::NoSuchQueue,
            (_, _, Some(srq)) => srq.take(),
            (_, _, None) => self.ring.take(),
        };
        let Some(receive) = taken else {
            return Taken::NotReady;
        };
        let mut length = u32::try_from(receive.sges.length()).unwrap_or(u32::MAX);
        self.taken.receive = Some(receive);
        if let (Some(causes), true) = (&mut self.causes, self.taken.is_of_send) {
            self.taken.planted = causes.take();
            if self.taken.planted == Some(verbena_faults::status::Status::LocalLength) {
                length = 0;
            }
        }
        Taken::Receive(Receive {
            id: TAKEN_RECEIVE,
            length,
        })
    }

    fn fill(&mut self, _: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        self.with_receive(|runs| {
            // SAFETY: `bytes` is readable for its length; bytes beyond the buffers are not stored.
            unsafe { runs.scatter(offset as usize, bytes.as_ptr(), bytes.len()) }
        })
    }

    fn fill_each(
        &mut self,
        _: WorkId,
        offset: u32,
        middles: &Middles<'_>,
    ) -> Result<(), LocalError> {
        self.with_receive(|runs| scatter_each(runs, offset as usize, middles))
    }

    fn invalidate(&mut self, key: RKey) -> Result<(), InvalidateError> {
        let window = self.memory().windows().find(key.0).ok_or(InvalidateError)?;
        let domain = self.domain().ok_or(InvalidateError)?;
        window
            .invalidate(key.0, domain, self.queue_pair.number)
            .map_err(|_| InvalidateError)
    }

    fn complete(&mut self, completion: ReceiveCompletion) {
        let Some(receive) = self.taken.receive.take() else {
            return;
        };
        let planted = self.taken.planted.take();
        self.note_used();
        let status = status_code(completion.status);
        if completion.status != Status::Success {
            let by_rule = planted.map(|_| refusal::BY_RULE.to_owned());
            let why = by_rule.or_else(refusal::noted).unwrap_or_else(|| {
                let room = receive.sges.length();
                format!("the message exceeds the receive's {room} bytes, or violates a rule")
            });
            let (wr_id, status) = (receive.wr_id, status_name(status));
            refusal::note(format_args!(
                "receive wr_id {wr_id:#x} ends with {status}: {why}"
            ));
        }
        let mut wc = ibv_wc {
            wr_id: receive.wr_id,
            status,
            opcode: IBV_WC_RECV,
            byte_len: completion.length,
            qp_num: self.queue_pair.number,
            src_qp: self.taken.source,
            vendor_err: vendor_error(status),
            ..ibv_wc::default()
        };
        match completion.received {
            Received::Send => (),
            Received::WriteImmediate => wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
            Received::Datagram { source } => wc.src_qp = source.value(),
        }
        if let Some(kind) = self.header {
            wc.wc_flags |= IBV_WC_GRH;
            wc.sl = kind;
        }
        match completion.tail {
            Tail::Nothing => (),
            Tail::Immediate(immediate) => {
                wc.wc_flags |= IBV_WC_WITH_IMM;
                wc.imm = ibv_wc_imm {
                    imm_data: u32::from_ne_bytes(immediate.0),
                };
            }
            Tail::Invalidated(key) => {
                wc.wc_flags |= IBV_WC_WITH_INV;
                wc.imm = ibv_wc_imm {
                    invalidated_rkey: key.0,
                };
            }
        }
        let counters = self.process().counters.shard();
        counters.receive_operations.add(1);
        counters.receive_bytes.add(completion.length.into());
        // A failure always raises an event, as on every path.
        let solicited = completion.solicited || completion.status != Status::Success;
        if let Some(cq) = self.completion_queue() {
            cq.push(Completion::received(wc), solicited);
        }
    }
}
