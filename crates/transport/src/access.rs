//! Traits through which the transport uses the adapter: memory, keys, receive queues, completions.

use verbena_wire::feth::Feth;
use verbena_wire::middles::Middles;
use verbena_wire::opcode::Kind;
use verbena_wire::{RKey, SrqNumber};

use crate::completion::{ReceiveCompletion, Status};
use crate::fault::Fault;
use crate::request::{SendRequest, Sequence, WorkId};

/// The send queue of a requester, and the memory of its requests.
///
/// The queue keeps the requests, and a requester only positions in it: 0 is the oldest request that
/// is not complete. The adapter appends a request once it may start: fences and the limit of reads
/// and atomics ([`crate::order`]) permit it, and the requester's `check` accepts it.
pub trait RequesterAccess {
    /// Returns the request at a position; `None` behind the last one.
    fn request(&self, at: usize) -> Option<SendRequest>;

    /// Copies the request's bytes from `offset` on into a packet's payload.
    ///
    /// # Errors
    ///
    /// The local memory may not be read; the request ends with
    /// [`crate::completion::Status::LocalProtection`].
    fn gather(&mut self, at: usize, offset: u32, into: &mut [u8]) -> Result<(), LocalError>;

    /// As [`Self::gather`], into the payloads of consecutive packets.
    ///
    /// # Errors
    ///
    /// As there; some payloads may have been filled.
    fn gather_each<'a>(
        &mut self,
        at: usize,
        offset: u32,
        payloads: impl Iterator<Item = &'a mut [u8]>,
    ) -> Result<(), LocalError> {
        let mut offset = offset;
        for payload in payloads {
            self.gather(at, offset, payload)?;
            offset += payload.len() as u32;
        }
        Ok(())
    }

    /// Completes the oldest request and removes it from the queue. Its buffers are not accessed
    /// afterwards.
    fn complete(&mut self, status: Status);
}

/// As [`RequesterAccess`], for a service whose responder answers.
pub trait ReliableRequesterAccess: RequesterAccess {
    /// Returns the packets of the request at a position; `None` behind the last one. The PSNs of
    /// successive requests follow each other.
    fn sequence(&self, at: usize) -> Option<Sequence>;

    /// Copies response data to the request's buffers. The result of an atomic is eight bytes in
    /// host byte order.
    ///
    /// # Errors
    ///
    /// The local memory may not be written.
    fn scatter(&mut self, at: usize, offset: u32, bytes: &[u8]) -> Result<(), LocalError>;
}

/// A range of local memory as a peer's request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The remote key.
    pub key: RKey,
    /// The address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
}

/// A kind of remote access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Access {
    Write,
    Read,
    Atomic,
}

impl Access {
    /// Returns the access right (`qp_access_flags`) that a queue pair needs to execute requests of
    /// this kind; SENDs need none.
    pub fn needed_by(kind: Kind) -> Option<Access> {
        match kind {
            Kind::Write | Kind::AtomicWrite => Some(Access::Write),
            Kind::Read => Some(Access::Read),
            Kind::Atomic => Some(Access::Atomic),
            // The memory region's key alone permits a flush, as in Linux' Soft-RoCE.
            Kind::Flush
            | Kind::Send
            | Kind::ReadResponse
            | Kind::Acknowledge
            | Kind::AtomicAcknowledge
            | Kind::CongestionNotification => None,
        }
    }
}

/// An atomic operation on eight bytes in host byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomicOperation {
    CompareSwap { compare: u64, swap: u64 },
    FetchAdd { add: u64 },
}

/// A receive work request that was taken from its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receive {
    /// The adapter's id of the work request.
    pub id: WorkId,
    /// Capacity of its buffers in bytes.
    pub length: u32,
}

/// The result of taking a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// A receive, now removed from the queue.
    Receive(Receive),
    /// The queue is empty: the receiver is not ready.
    NotReady,
    /// The request names a shared receive queue that does not exist, or that is not in this XRC
    /// domain.
    NoSuchQueue,
}

/// Local memory does not permit the access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("local memory may not be used so")]
pub struct LocalError;

/// The remote key does not permit the access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the remote key does not give the right")]
pub struct AccessError;

/// The peer may not invalidate this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the key cannot be invalidated by this peer")]
pub struct InvalidateError;

/// Why a peer's access to memory was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MemoryError {
    /// The remote key does not permit the access.
    #[error("the remote key does not give the right")]
    Access,
    /// The memory does not support the operation, or is no longer mapped.
    #[error("the memory does not support the operation")]
    Operation,
}

impl From<MemoryError> for Fault {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Access => Self::RemoteAccess,
            MemoryError::Operation => Self::Operation,
        }
    }
}

/// Adapter services for a responder. Each call checks the access rights again, because they may
/// have been revoked since the previous call.
pub trait ResponderAccess {
    /// Returns whether the queue pair permits this access at all, independent of the memory
    /// (`qp_access_flags`).
    fn supports(&mut self, access: Access) -> bool;

    /// Returns whether the queue pair's XRC domain has the shared receive queue that a request
    /// names.
    fn has_queue(&mut self, shared: SrqNumber) -> bool;

    /// Checks the peer's right to access a whole region.
    ///
    /// # Errors
    ///
    /// The key does not permit the access.
    fn check(&mut self, region: Region, access: Access) -> Result<(), AccessError>;

    /// Writes the payload of an RDMA WRITE; `region` has the length of `bytes`.
    ///
    /// # Errors
    ///
    /// The key does not permit the access (any more).
    fn write(&mut self, region: Region, bytes: &[u8]) -> Result<(), MemoryError>;

    /// Writes the payloads of consecutive packets of an RDMA WRITE; `region` has their length.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; some payloads may have been written.
    fn write_each(&mut self, region: Region, middles: &Middles<'_>) -> Result<(), MemoryError> {
        let mut address = region.address;
        for payload in middles.payloads() {
            let piece = Region {
                address,
                length: payload.len() as u32,
                ..region
            };
            self.write(piece, payload)?;
            address = address.wrapping_add(piece.length.into());
        }
        Ok(())
    }

    /// Reads the payload of an RDMA READ response; `region` has the length of `into`.
    ///
    /// # Errors
    ///
    /// The key does not permit the access (any more).
    fn read(&mut self, region: Region, into: &mut [u8]) -> Result<(), MemoryError>;

    /// Executes an atomic operation on eight aligned bytes and returns their previous value.
    ///
    /// # Errors
    ///
    /// The key does not permit the access, or the memory does not support atomics.
    fn atomic(&mut self, region: Region, operation: AtomicOperation) -> Result<u64, MemoryError>;

    /// Writes eight aligned bytes in a single access.
    ///
    /// # Errors
    ///
    /// The key does not permit the access, or the memory does not support atomics.
    fn atomic_write(&mut self, region: Region, bytes: [u8; 8]) -> Result<(), MemoryError>;

    /// Makes earlier writes visible or persistent.
    ///
    /// # Errors
    ///
    /// The key does not permit the access.
    fn flush(&mut self, region: Region, feth: Feth) -> Result<(), AccessError>;

    /// Takes the next receive: from the queue pair's queue or its shared receive queue; for XRC,
    /// from the shared receive queue that the request names.
    fn take_receive(&mut self, shared: Option<SrqNumber>) -> Taken;

    /// Copies message bytes into a receive's buffers, never beyond the receive's length.
    ///
    /// # Errors
    ///
    /// The local memory may not be written.
    fn fill(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError>;

    /// As [`Self::fill`], for the payloads of consecutive packets.
    ///
    /// # Errors
    ///
    /// As there; some payloads may have been copied.
    fn fill_each(
        &mut self,
        id: WorkId,
        offset: u32,
        middles: &Middles<'_>,
    ) -> Result<(), LocalError> {
        let mut offset = offset;
        for payload in middles.payloads() {
            self.fill(id, offset, payload)?;
            offset += payload.len() as u32;
        }
        Ok(())
    }

    /// Invalidates a local key for SEND with invalidate.
    ///
    /// # Errors
    ///
    /// The peer may not invalidate this key.
    fn invalidate(&mut self, key: RKey) -> Result<(), InvalidateError>;

    /// Reports the completion of a receive.
    fn complete(&mut self, completion: ReceiveCompletion);
}
