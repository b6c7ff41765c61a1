//! The fabric interface between workloads and adapters: hardware, software or
//! modelled.
//!
//! A workload is an `async fn` generic over [`Fabric`]. Over verbs every future of the interface
//! spins and is ready at its first poll, so the workload compiles to a plain loop; over a model the
//! futures suspend in virtual time and account for the processor time of posting, polling and
//! copying. A workload that awaits only futures of this interface therefore runs unchanged on
//! hardware, on the software adapter, and on a model.
//!
//! # Contract
//! Every implementation must keep these rules; [`conformance`] has a generic check for each.
//!
//! 1. A value of a `Fabric` is one process of a job. It never blocks other processes of the job
//!    except inside [`Group`] operations, and any executor that polls again after `Pending` may
//!    drive it.
//! 2. A completed write or read has transferred its bytes, and only those. Writes of one queue pair
//!    are placed in the order of posting; the last byte of a write is placed last (memory polling
//!    relies on it).
//! 3. Work requests of one queue pair complete in the order of posting. A `Silent` request
//!    generates a completion only if it fails. A list is posted as a whole or up to the first bad
//!    request, which the error names.
//! 4. A send consumes exactly one receive request at the peer and reports the byte count there;
//!    immediate data arrive with the receive completion. A datagram is preceded by 40 bytes of
//!    header space in the receive buffer.
//! 5. Atomics operate on eight aligned bytes, return the old value, and are atomic among all
//!    processes of the job.
//! 6. An access outside a region, or without permission, never touches memory: the call fails or
//!    the request completes in error. After an error completion the queue pair completes all posted
//!    requests with the flush status.
//! 7. `Placement::Inline` copies the bytes during the call; the buffer may be reused when the call
//!    returns.
//! 8. Unsupported features return [`Error::Unsupported`], and [`Capabilities`] reports them
//!    beforehand. There is no silent substitute: a fabric without events does not poll instead.
//! 9. The clock never goes backwards within a process. Processes of one node read the same clock;
//!    processes of several nodes agree on an instant with [`Group::align`].
//! 10. A wait without progress for the fabric's time limit ends with [`Error::Stalled`], an
//!     interrupted wait with [`Error::Interrupted`]; if a peer is known to have ended, with
//!     [`Error::PeerLost`]; if the other processes have given up this one because it hung, with
//!     [`Error::LeftBehind`].
//! 11. Handles may be dropped in any order. Dropping a region ends the adapter's access before the
//!     memory is reused.
//!
//! The interface is deliberately single-threaded: a benchmark process is one thread on one core, as
//! in the papers, and futures need not be `Send`.
#![forbid(unsafe_code)]
#![allow(
    async_fn_in_trait,
    reason = "futures of the interface are single-threaded by contract"
)]

pub mod capability;
pub mod clock;
pub mod completion;
pub mod conformance;
mod error;
pub mod executor;
pub mod group;
mod in_process;
pub mod instant;
mod interface;
pub mod model;
pub mod operation;
pub mod pair;
pub mod rails;
pub mod region;
pub mod simulated_limits;
pub mod verbs;

pub use capability::{Capabilities, FabricKind, HostBus, Link, Operations, Transports};
pub use clock::{ClockSource, Ticks};
pub use completion::{Completion, CompletionKind, CompletionQueue, Status, Wait};
pub use error::{Error, Failed, Invalid, PeerLost, Refused, Result, Stalled, Unsupported};
pub use group::Group;
pub use interface::{Fabric, Pinning, QueueRequest};
pub use operation::{
    Destination, Operation, Placement, ReceiveRequest, Remote, Signal, Slice, WorkRequest,
};
pub use pair::{Endpoint, PairRequest, QueuePair, SharedReceive, SharedReceiveRequest, Transport};
pub use rails::Rails;
pub use region::{Access, BufferRequest, Location, Region, RemoteRegion};
