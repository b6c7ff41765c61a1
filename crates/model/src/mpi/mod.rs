//! Message passing over the modelled adapters: the work of MVAPICH, Open MPI and MPICH per message.
//!
//! Up to the eager limit a message is copied into a preregistered buffer, written to the peer's,
//! and copied out. Above it, sender and receiver agree first and the data go without copies, by the
//! sender's RDMA write or the receiver's RDMA read, over all ports; both sides register their
//! buffer unless it is still registered. Alternatively the data go in fragments, registered one
//! after another while others are in flight. A library may limit the number of eager messages in a
//! receiver's buffers. Inside a node, messages pass through shared memory, copied twice. Receives
//! match by source and tag, with wildcards ([`Wanted`]). Source: the MVAPICH papers' descriptions
//! of its protocols.

mod cause;
mod collective;
mod corrections;
mod credit_state;
mod credits;
mod eager;
mod envelope;
mod exchanges;
mod intranode;
mod matching;
mod messages;
mod notice;
mod one_sided;
mod pipeline;
mod registered;
mod registration;
mod rendezvous;
mod rounds;
mod sockets;
mod unexpected;
mod waiting;
mod world;

pub use cause::{Cause, Woken};
pub use corrections::Plan;
pub use matching::{Origin, Wanted};
pub use notice::Notice;
pub use rounds::{Member, Round};
pub use world::{Rank, World};
