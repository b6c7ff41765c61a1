//! The [`Fabric`] trait.

use crate::capability::Capabilities;
use crate::clock::{ClockSource, Ticks};
use crate::completion::{CompletionQueue, Wait};
use crate::error::Result;
use crate::group::Group;
use crate::pair::{Endpoint, PairRequest, QueuePair, SharedReceive, SharedReceiveRequest};
use crate::region::{Access, BufferRequest, Region};
use std::time::Duration;

/// Parameters of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRequest {
    /// Depth.
    pub depth: u32,
    /// How it will be waited for; [`Wait::Event`] creates an event channel.
    pub wait: Wait,
}

/// A process's processor during a measurement point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinning {
    /// The processor to which it alone is bound.
    Own,
    /// More working processes than processors: they share them.
    InTurns,
    /// The operating system refused the binding.
    Unbound,
}

/// One process of a job, with one adapter.
pub trait Fabric {
    /// Unregistered memory.
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

    /// Returns kind and capabilities.
    fn capabilities(&self) -> &Capabilities;
    /// Returns the job.
    fn group(&self) -> &Self::Group;
    /// Reads the clock. Takes no virtual time.
    fn now(&self) -> Ticks;
    /// Returns the description of the clock.
    fn clock(&self) -> &ClockSource;

    /// Allocates memory and touches every page, so that registration and use find it present.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`](crate::Error::Unsupported) for adapter memory if there is
    /// none.
    async fn allocate(&self, request: BufferRequest) -> Result<Self::Buffer>;
    /// Registers memory. Separate from allocation, as its cost is a separate benchmark.
    async fn register(&self, buffer: Self::Buffer, access: Access) -> Result<Self::Region>;
    /// Ends the adapter's access and returns the memory.
    async fn deregister(&self, region: Self::Region) -> Result<Self::Buffer>;
    /// Allocates and registers host memory.
    async fn region(&self, length: usize, access: Access) -> Result<Self::Region> {
        let buffer = self.allocate(BufferRequest::host(length)).await?;
        self.register(buffer, access).await
    }

    /// Creates a completion queue.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`](crate::Error::Unsupported) for [`Wait::Event`] if there are
    /// no completion events.
    async fn completions(&self, request: QueueRequest) -> Result<Self::Completions>;
    /// Creates a shared receive queue.
    async fn shared_receive(
        &self,
        request: SharedReceiveRequest<'_, Self>,
    ) -> Result<Self::SharedReceive>;
    /// Creates an unconnected queue pair.
    ///
    /// # Errors
    ///
    /// Returns an error if the fabric cannot grant the inline payload.
    async fn pair(&self, request: PairRequest<'_, Self>) -> Result<Self::Pair>;
    /// Creates an address from a peer's endpoint.
    async fn address(&self, remote: &Endpoint) -> Result<Self::Address>;

    /// Takes a processor for a point in which `members`, including this process, work while all
    /// others wait.
    fn pin_cpu(&self, _members: &[usize]) -> Pinning {
        Pinning::Own
    }
    /// Keeps the processor busy for `time`.
    async fn compute(&self, time: Duration);
    /// Returns the bytes of host memory held by this process and by the adapter on its behalf, if
    /// known: the slope over many connections is the cost of a connection (memfree, section 4.4).
    fn host_memory(&self) -> Option<u64>;
    /// Returns whether a stop was requested; workloads check it between points, waits check it
    /// themselves.
    fn stopping(&self) -> bool {
        false
    }
}
