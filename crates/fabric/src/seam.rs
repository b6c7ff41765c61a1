//! The trait itself.

use crate::capability::Capabilities;
use crate::clock::{ClockSource, Ticks};
use crate::completion::{CompletionQueue, Wait};
use crate::error::Result;
use crate::group::Group;
use crate::pair::{Endpoint, PairRequest, QueuePair, SharedReceive, SharedReceiveRequest};
use crate::region::{Access, BufferRequest, Region};
use std::time::Duration;

/// What to ask of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRequest {
    /// Depth.
    pub depth: u32,
    /// How it will be waited for; [`Wait::Event`] gives it an event channel.
    pub wait: Wait,
}

/// What a process has of the processors in a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// One of its own, to which it is bound.
    Own,
    /// Those that work are more than the processors: they take turns.
    InTurns,
    /// The system did not let it be bound.
    Unbound,
}

/// One process of a job, with one adapter.
pub trait Fabric {
    /// Memory that is not registered yet.
    type Buffer;
    /// Registered memory.
    type Region: Region;
    /// A completion queue.
    type Completions: CompletionQueue;
    /// A shared receive queue.
    type SharedReceive: SharedReceive<Self::Region>;
    /// A queue pair.
    type Pair: QueuePair<Self>;
    /// A peer's address for datagrams.
    type Address;
    /// The job.
    type Group: Group;

    /// What this fabric is and can do.
    fn capabilities(&self) -> &Capabilities;
    /// The job.
    fn group(&self) -> &Self::Group;
    /// The clock's reading. Costs no virtual time.
    fn now(&self) -> Ticks;
    /// What the clock is.
    fn clock(&self) -> &ClockSource;

    /// Allocates memory; every page is touched, so that registration and use find it present.
    async fn allocate(&self, request: BufferRequest) -> Result<Self::Buffer>;
    /// Registers memory. Its cost is a benchmark of its own, hence apart from allocation.
    async fn register(&self, buffer: Self::Buffer, access: Access) -> Result<Self::Region>;
    /// Ends the adapter's access and gives the memory back.
    async fn deregister(&self, region: Self::Region) -> Result<Self::Buffer>;
    /// Allocates and registers host memory.
    async fn region(&self, length: usize, access: Access) -> Result<Self::Region> {
        let buffer = self.allocate(BufferRequest::host(length)).await?;
        self.register(buffer, access).await
    }

    /// Creates a completion queue.
    async fn completions(&self, request: QueueRequest) -> Result<Self::Completions>;
    /// Creates a shared receive queue.
    async fn shared_receive(
        &self,
        request: SharedReceiveRequest<'_, Self>,
    ) -> Result<Self::SharedReceive>;
    /// Creates a queue pair, not connected yet.
    async fn pair(&self, request: PairRequest<'_, Self>) -> Result<Self::Pair>;
    /// Makes an address from what a peer told.
    async fn address(&self, remote: &Endpoint) -> Result<Self::Address>;

    /// Takes a processor for a point in which `members`, this process among them, work while all others wait.
    fn take_seat(&self, _members: &[usize]) -> Seat {
        Seat::Own
    }
    /// The processor is busy for so long.
    async fn compute(&self, time: Duration);
    /// Bytes of host memory that this process and the adapter on its behalf hold now, where the fabric can tell: the
    /// slope over many connections is what a connection costs (memfree, section 4.4).
    fn host_memory(&self) -> Option<u64>;
    /// Whether a stop was asked for; workloads look between points, waits look by themselves.
    fn stopping(&self) -> bool {
        false
    }
}
