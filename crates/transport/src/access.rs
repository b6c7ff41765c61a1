//! What the transport asks of the adapter: memory, keys, receive queues, completions.

use verbena_wire::feth::Feth;
use verbena_wire::opcode::Kind;
use verbena_wire::{RKey, SrqNumber};

use crate::completion::{ReceiveCompletion, SendCompletion};
use crate::request::WorkId;

/// The requester's side of an adapter.
pub trait RequesterAccess {
    /// Copies the request's bytes from `offset` on into a packet.
    ///
    /// # Errors
    ///
    /// The local memory may not be read: the request ends with [`crate::completion::Status::LocalProtection`].
    fn gather(&mut self, id: WorkId, offset: u32, into: &mut [u8]) -> Result<(), LocalError>;

    /// Copies what was read from the responder to the request's buffers. The result of an atomic is eight bytes in the
    /// host's order.
    ///
    /// # Errors
    ///
    /// The local memory may not be written.
    fn scatter(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError>;

    /// A request has ended. Its buffers are not touched any more.
    fn complete(&mut self, completion: SendCompletion);
}

/// A piece of this side's memory as a peer names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The right.
    pub key: RKey,
    /// The first byte.
    pub address: u64,
    /// How many.
    pub length: u32,
}

/// What a peer wants to do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Access {
    Write,
    Read,
    Atomic,
}

impl Access {
    /// What a queue pair must be set up for to execute requests of a kind; sends it always executes.
    pub fn needed_by(kind: Kind) -> Option<Access> {
        match kind {
            Kind::Write | Kind::AtomicWrite => Some(Access::Write),
            Kind::Read => Some(Access::Read),
            Kind::Atomic => Some(Access::Atomic),
            // A flush is the key's to allow, as with Linux' Soft-RoCE.
            Kind::Flush
            | Kind::Send
            | Kind::ReadResponse
            | Kind::Acknowledge
            | Kind::AtomicAcknowledge
            | Kind::CongestionNotification => None,
        }
    }
}

/// An atomic operation on eight bytes in the host's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomicOperation {
    CompareSwap { compare: u64, swap: u64 },
    FetchAdd { add: u64 },
}

/// A receive that was taken from its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receive {
    /// Its name.
    pub id: WorkId,
    /// Bytes that it has room for.
    pub length: u32,
}

/// What a receive queue gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// A receive; nobody else gets it.
    Receive(Receive),
    /// There is none: the receiver is not ready.
    NotReady,
    /// The request names a shared receive queue that does not exist, or not in this XRC domain.
    NoSuchQueue,
}

/// Local memory may not be used so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("local memory may not be used so")]
pub struct LocalError;

/// A peer's key does not give the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the remote key does not give the right")]
pub struct AccessError;

/// A key cannot be invalidated by this peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the key cannot be invalidated by this peer")]
pub struct InvalidateError;

/// Why an atomic operation was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AtomicError {
    /// The key does not give the right.
    #[error("the remote key does not give the right")]
    Access,
    /// The memory cannot do it.
    #[error("the memory cannot be updated atomically")]
    Operation,
}

/// The responder's side of an adapter. Rights are checked by every call anew: they may have been taken since the last.
pub trait ResponderAccess {
    /// Whether the queue pair is set up for this at all, whatever memory is named (`qp_access_flags`).
    fn supports(&mut self, access: Access) -> bool;

    /// Whether a peer may do this to a whole region.
    ///
    /// # Errors
    ///
    /// It may not.
    fn check(&mut self, region: Region, access: Access) -> Result<(), AccessError>;

    /// Writes bytes of an RDMA WRITE; `region` is as long as they are.
    ///
    /// # Errors
    ///
    /// The peer may not (any more).
    fn write(&mut self, region: Region, bytes: &[u8]) -> Result<(), AccessError>;

    /// Reads bytes for an RDMA READ; `region` is as long as `into`.
    ///
    /// # Errors
    ///
    /// The peer may not (any more).
    fn read(&mut self, region: Region, into: &mut [u8]) -> Result<(), AccessError>;

    /// Does an atomic operation on eight aligned bytes, and gives what they were.
    ///
    /// # Errors
    ///
    /// The peer may not, or the memory cannot.
    fn atomic(&mut self, region: Region, operation: AtomicOperation) -> Result<u64, AtomicError>;

    /// Writes eight aligned bytes at once.
    ///
    /// # Errors
    ///
    /// The peer may not, or the memory cannot.
    fn atomic_write(&mut self, region: Region, bytes: [u8; 8]) -> Result<(), AtomicError>;

    /// Makes what was written before visible or persistent.
    ///
    /// # Errors
    ///
    /// The peer may not.
    fn flush(&mut self, region: Region, feth: Feth) -> Result<(), AccessError>;

    /// Takes the next receive: of the queue pair's own queue or the shared one that it is attached to; for XRC of the
    /// shared one that is named.
    fn take_receive(&mut self, shared: Option<SrqNumber>) -> Taken;

    /// Copies bytes of a message into a receive's buffers; never beyond its length.
    ///
    /// # Errors
    ///
    /// The local memory may not be written.
    fn fill(&mut self, id: WorkId, offset: u32, bytes: &[u8]) -> Result<(), LocalError>;

    /// Invalidates a key of this side for SEND with invalidate.
    ///
    /// # Errors
    ///
    /// The key cannot be invalidated.
    fn invalidate(&mut self, key: RKey) -> Result<(), InvalidateError>;

    /// A receive has ended.
    fn complete(&mut self, completion: ReceiveCompletion);
}
