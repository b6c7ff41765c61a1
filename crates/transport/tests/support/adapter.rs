//! A simulated adapter with one memory region, a send and a receive queue, and an event log.

use std::collections::{HashMap, HashSet, VecDeque};

use verbena_transport::completion::{ReceiveCompletion, Status};
use verbena_transport::order::{Outstanding, Start};
use verbena_transport::request::{Fence, SendRequest, Sequence, WorkId, packets};
use verbena_transport::{
    Access, AccessError, AtomicOperation, InvalidateError, LocalError, MemoryError, Receive,
    Region, ReliableRequesterAccess, RequesterAccess, ResponderAccess, Taken, reliable, unreliable,
};
use verbena_wire::feth::Feth;
use verbena_wire::{Mtu, Psn, RKey, SrqNumber};

/// The key of the region.
pub const KEY: RKey = RKey(0x42);
/// Its first address.
pub const BASE: u64 = 0x7f00_0000_1000;
/// A key that may be invalidated, once.
pub const WINDOW: RKey = RKey(0x77);
/// The shared receive queue of XRC.
pub const SRQ: SrqNumber = SrqNumber::new(0x99);

/// A send request with its id.
#[derive(Debug, Clone, Copy)]
pub struct Posted {
    pub id: u64,
    pub request: SendRequest,
    pub fence: Fence,
}

impl Posted {
    pub fn fenced(self) -> Self {
        let fence = Fence::On;
        Self { fence, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendCompletion {
    pub id: u64,
    pub status: Status,
}

/// Requests that have started come before those that wait for their turn.
#[derive(Debug)]
pub struct SendQueue {
    requests: VecDeque<(Posted, Sequence)>,
    started: usize,
    outstanding: Outstanding,
    /// Of the path; each request that is posted uses the PSNs behind those of the one before.
    pub mtu: Mtu,
    pub next_psn: Psn,
    pub capacity: usize,
}

impl Default for SendQueue {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            started: 0,
            outstanding: Outstanding::new(4),
            mtu: Mtu::B1024,
            next_psn: Psn::new(0),
            capacity: 64,
        }
    }
}

impl SendQueue {
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn set_max_rd_atomic(&mut self, limit: u32) {
        self.outstanding.set_limit(limit);
    }

    fn started(&self, at: usize) -> Option<&(Posted, Sequence)> {
        self.requests.get(at).filter(|_| at < self.started)
    }

    fn push(&mut self, posted: Posted) {
        let SendRequest {
            operation, length, ..
        } = posted.request;
        let sequence = Sequence {
            first: self.next_psn,
            packets: packets(operation.kind(), length.into(), self.mtu.bytes()),
            answer: operation.answer(),
        };
        self.next_psn = sequence.end();
        self.requests.push_back((posted, sequence));
        self.start();
    }

    /// Starts the requests whose turn has come.
    fn start(&mut self) {
        while let Some((posted, sequence)) = self.requests.get(self.started) {
            match self.outstanding.may_start(sequence.answer, posted.fence) {
                Start::Now => (),
                Start::AfterAll | Start::AfterOne => return,
                Start::Never => panic!("the adapter fails such a request itself"),
            }
            self.outstanding.start(sequence.answer);
            self.started += 1;
        }
    }

    /// Removes the oldest request, which has started. After a failure all others are due to be
    /// flushed.
    fn complete(&mut self, status: Status) -> SendCompletion {
        let (posted, sequence) = self.requests.pop_front().expect("a request");
        self.started -= 1;
        if status == Status::Success {
            self.outstanding.end(sequence.answer);
            self.start();
        } else {
            self.outstanding.clear();
            self.started = self.requests.len();
        }
        let id = posted.id;
        SendCompletion { id, status }
    }
}

#[derive(Debug, Default)]
pub struct Adapter {
    pub send_queue: SendQueue,
    pub memory: Vec<u8>,
    /// Data of send requests: sent, or read.
    pub buffers: HashMap<u64, Vec<u8>>,
    pub receives: VecDeque<Receive>,
    pub receive_buffers: HashMap<u64, Vec<u8>>,
    pub sent: Vec<SendCompletion>,
    pub received: Vec<ReceiveCompletion>,
    pub atomics: u64,
    pub flushes: u64,
    pub invalidated: HashSet<RKey>,
    /// Access kinds that the queue pair does not permit.
    pub unsupported: HashSet<Access>,
    /// Access kinds refused despite a valid key.
    pub refused: HashSet<&'static str>,
    /// Receives whose memory may not be written, send requests whose memory may not be accessed.
    pub protected: HashSet<u64>,
}

impl Adapter {
    pub fn new(memory: usize) -> Self {
        Self {
            memory: vec![0; memory],
            ..Self::default()
        }
    }

    /// Returns the requesting side of a queue pair with these path MTU and initial PSN.
    pub fn requesting(mtu: Mtu, psn: Psn) -> Self {
        let mut adapter = Self::new(0);
        adapter.send_queue.mtu = mtu;
        adapter.send_queue.next_psn = psn;
        adapter
    }

    /// Posts a request that fits the send queue.
    pub fn post(
        &mut self,
        requester: &reliable::Requester,
        posted: Posted,
    ) -> Result<(), reliable::requester::PostError> {
        requester.check(&posted.request)?;
        self.send_queue.push(posted);
        Ok(())
    }

    /// As [`Self::post`], on an unreliable queue pair.
    pub fn post_unreliable(
        &mut self,
        requester: &unreliable::Requester,
        posted: Posted,
    ) -> Result<(), unreliable::PostError> {
        requester.check(&posted.request)?;
        self.send_queue.push(posted);
        Ok(())
    }

    /// Returns the id of the request at a position if its memory may be accessed.
    fn accessible(&self, at: usize) -> Result<u64, LocalError> {
        let (posted, _) = self.send_queue.started(at).expect("a request");
        match self.protected.contains(&posted.id) {
            true => Err(LocalError),
            false => Ok(posted.id),
        }
    }

    pub fn post_receive(&mut self, id: u64, length: u32) {
        self.receives.push_back(Receive {
            id: WorkId(id),
            length,
        });
        self.receive_buffers.insert(id, vec![0; length as usize]);
    }

    fn range(&self, region: Region) -> Option<std::ops::Range<usize>> {
        let start = region.address.checked_sub(BASE)?;
        let end = start.checked_add(u64::from(region.length))?;
        (region.key == KEY && end <= self.memory.len() as u64)
            .then_some(start as usize..end as usize)
    }

    fn word(&self, region: Region) -> Result<std::ops::Range<usize>, MemoryError> {
        assert_eq!(
            (region.length, region.address % 8),
            (8, 0),
            "the transport has not checked"
        );
        if self.refused.contains("operation") {
            return Err(MemoryError::Operation);
        }
        match self.range(region) {
            Some(range) if !self.refused.contains("atomic") => Ok(range),
            _ => Err(MemoryError::Access),
        }
    }
}

impl RequesterAccess for Adapter {
    fn request(&self, at: usize) -> Option<SendRequest> {
        let (posted, _) = self.send_queue.started(at)?;
        Some(posted.request)
    }

    fn gather(&mut self, at: usize, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        let id = self.accessible(at)?;
        let start = offset as usize;
        into.copy_from_slice(&self.buffers[&id][start..start + into.len()]);
        Ok(())
    }

    fn complete(&mut self, status: Status) {
        let completion = self.send_queue.complete(status);
        self.sent.push(completion);
    }
}

impl ReliableRequesterAccess for Adapter {
    fn sequence(&self, at: usize) -> Option<Sequence> {
        let (_, sequence) = self.send_queue.started(at)?;
        Some(*sequence)
    }

    fn scatter(&mut self, at: usize, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        let id = self.accessible(at)?;
        let start = offset as usize;
        let buffer = self.buffers.get_mut(&id).expect("the request's buffer");
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl ResponderAccess for Adapter {
    fn supports(&mut self, access: Access) -> bool {
        !self.unsupported.contains(&access)
    }

    fn has_queue(&mut self, shared: SrqNumber) -> bool {
        shared == SRQ
    }

    fn check(&mut self, region: Region, access: Access) -> Result<(), AccessError> {
        let name = match access {
            Access::Write => "write",
            Access::Read => "read",
            Access::Atomic => "atomic",
        };
        if self.refused.contains(name) {
            return Err(AccessError);
        }
        self.range(region).map(drop).ok_or(AccessError)
    }

    fn write(&mut self, region: Region, bytes: &[u8]) -> Result<(), MemoryError> {
        assert_eq!(region.length as usize, bytes.len());
        self.check(region, Access::Write)
            .map_err(|_| MemoryError::Access)?;
        let range = self.range(region).ok_or(MemoryError::Access)?;
        if self.refused.contains("operation") {
            return Err(MemoryError::Operation);
        }
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, region: Region, into: &mut [u8]) -> Result<(), MemoryError> {
        assert_eq!(region.length as usize, into.len());
        self.check(region, Access::Read)
            .map_err(|_| MemoryError::Access)?;
        let range = self.range(region).ok_or(MemoryError::Access)?;
        if self.refused.contains("operation") {
            return Err(MemoryError::Operation);
        }
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn atomic(&mut self, region: Region, operation: AtomicOperation) -> Result<u64, MemoryError> {
        let range = self.word(region)?;
        let original = u64::from_ne_bytes(self.memory[range.clone()].try_into().unwrap());
        let changed = match operation {
            AtomicOperation::CompareSwap { compare, swap } if compare == original => swap,
            AtomicOperation::CompareSwap { .. } => original,
            AtomicOperation::FetchAdd { add } => original.wrapping_add(add),
        };
        self.memory[range].copy_from_slice(&changed.to_ne_bytes());
        self.atomics += 1;
        Ok(original)
    }

    fn atomic_write(&mut self, region: Region, bytes: [u8; 8]) -> Result<(), MemoryError> {
        let range = self.word(region)?;
        self.memory[range].copy_from_slice(&bytes);
        self.atomics += 1;
        Ok(())
    }

    fn flush(&mut self, region: Region, _: Feth) -> Result<(), AccessError> {
        if self.refused.contains("flush") {
            return Err(AccessError);
        }
        self.range(region).ok_or(AccessError)?;
        self.flushes += 1;
        Ok(())
    }

    fn take_receive(&mut self, shared: Option<SrqNumber>) -> Taken {
        if shared.is_some_and(|shared| shared != SRQ) {
            return Taken::NoSuchQueue;
        }
        self.receives
            .pop_front()
            .map_or(Taken::NotReady, Taken::Receive)
    }

    fn fill(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        if self.protected.contains(&id.0) {
            return Err(LocalError);
        }
        let start = offset as usize;
        let buffer = self
            .receive_buffers
            .get_mut(&id.0)
            .expect("a receive that was posted");
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn invalidate(&mut self, key: RKey) -> Result<(), InvalidateError> {
        if key == WINDOW && self.invalidated.insert(key) {
            Ok(())
        } else {
            Err(InvalidateError)
        }
    }

    fn complete(&mut self, completion: ReceiveCompletion) {
        self.received.push(completion);
    }
}
