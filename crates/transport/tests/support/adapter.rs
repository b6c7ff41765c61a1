//! A simulated adapter with one memory region, one receive queue and an event log.

use std::collections::{HashMap, HashSet, VecDeque};

use verbena_transport::completion::{ReceiveCompletion, SendCompletion};
use verbena_transport::request::WorkId;
use verbena_transport::{
    Access, AccessError, AtomicOperation, InvalidateError, LocalError, MemoryError, Receive,
    Region, RequesterAccess, ResponderAccess, Taken,
};
use verbena_wire::feth::Feth;
use verbena_wire::{RKey, SrqNumber};

/// The key of the region.
pub const KEY: RKey = RKey(0x42);
/// Its first address.
pub const BASE: u64 = 0x7f00_0000_1000;
/// A key that may be invalidated, once.
pub const WINDOW: RKey = RKey(0x77);
/// The shared receive queue of XRC.
pub const SRQ: SrqNumber = SrqNumber::new(0x99);

#[derive(Debug, Default)]
pub struct Adapter {
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
    fn gather(&mut self, id: WorkId, offset: u32, into: &mut [u8]) -> Result<(), LocalError> {
        if self.protected.contains(&id.0) {
            return Err(LocalError);
        }
        let start = offset as usize;
        into.copy_from_slice(&self.buffers[&id.0][start..start + into.len()]);
        Ok(())
    }

    fn scatter(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError> {
        if self.protected.contains(&id.0) {
            return Err(LocalError);
        }
        let start = offset as usize;
        let buffer = self
            .buffers
            .get_mut(&id.0)
            .expect("a request that was posted");
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn complete(&mut self, completion: SendCompletion) {
        self.sent.push(completion);
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
