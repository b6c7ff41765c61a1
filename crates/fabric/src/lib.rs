//! The seam: what a workload sees of an adapter, real, software or modelled.
//!
//! A workload is an `async fn` generic over [`Fabric`]. Over verbs every future of the seam spins and is ready at its
//! first poll, so the workload compiles to the plain loop; over a model the futures suspend in virtual time, and the
//! seam charges what the processor spends on posting, polling and copying. A workload that awaits nothing but the
//! seam's futures therefore runs unchanged on hardware, on the software adapter, and on a model.
//!
//! # Contract
//! Every implementation keeps these rules; [`conformance`] has a generic check for each.
//!
//! 1. One value of a `Fabric` is one process of a job. It never blocks the other processes of the job except inside
//!    [`Group`] operations, and it may be driven by any executor that polls again after `Pending`.
//! 2. A write or read that completed has moved its bytes, and only those. Writes of one queue pair are placed in the
//!    order in which they were posted; the last byte of a write is placed last (memory polling relies on it).
//! 3. Work requests of one queue pair complete in the order of posting. A `Silent` request gives a completion only when
//!    it fails. A list is posted as a whole or up to the first bad request, which the error names.
//! 4. A send consumes exactly one receive request at the other side and reports the byte count there; immediate data
//!    arrives with the receive completion. A datagram is preceded by 40 bytes of header space in the receive buffer.
//! 5. Atomics act on eight aligned bytes, give the old value, and are atomic among all processes of the job.
//! 6. An access outside a region, or without the permission, never touches memory: it is refused at the call or gives an
//!    error completion. After an error completion the queue pair completes what was posted with the flush status.
//! 7. `Placement::Inline` takes the bytes at the call; the buffer may be changed when the call returns.
//! 8. What is not supported answers [`Error::Unsupported`]; [`Capabilities`] says so beforehand. Never a silent
//!    substitute: a fabric that cannot do events does not poll in their place.
//! 9. The clock never goes back within a process. Two processes of one node read the same clock; of several nodes,
//!    [`Group::align`] agrees on an instant.
//! 10. A wait that makes no progress for the fabric's patience ends with [`Error::Stalled`]; one that is interrupted
//!     ends with [`Error::Interrupted`]; when a peer is known to be gone, with [`Error::PeerLost`]; when the others gave
//!     this process up, which hung, with [`Error::LeftBehind`].
//! 11. Handles may be dropped in any order. Dropping a region ends the adapter's access before the memory is reused.
//!
//! Single-threaded on purpose: a process of a benchmark is one thread on one core, as in the papers, and futures need
//! not be `Send`.
#![forbid(unsafe_code)]
#![allow(
    async_fn_in_trait,
    reason = "futures of the seam are single-threaded by contract"
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
pub mod model;
pub mod operation;
pub mod pair;
pub mod planted;
pub mod rails;
pub mod region;
mod seam;
pub mod verbs;

pub use capability::{Capabilities, FabricKind, Link, Operations, Transports};
pub use clock::{ClockSource, Ticks};
pub use completion::{Completion, CompletionKind, CompletionQueue, Status, Wait};
pub use error::{Error, Failed, Invalid, PeerLost, Refused, Result, Stalled, Unsupported};
pub use group::Group;
pub use operation::{
    Destination, Operation, Placement, ReceiveRequest, Remote, Signal, Slice, WorkRequest,
};
pub use pair::{Endpoint, PairRequest, QueuePair, SharedReceive, SharedReceiveRequest, Transport};
pub use rails::Rails;
pub use region::{Access, BufferRequest, Location, Region, RemoteRegion};
pub use seam::{Fabric, QueueRequest, Seat};
