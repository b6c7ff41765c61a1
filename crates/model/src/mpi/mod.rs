//! Message passing over the modelled adapters: what MVAPICH, Open MPI and MPICH do for each message.
//!
//! Up to the eager limit a message is copied into a preregistered buffer, written to the peer's, and copied out. Above
//! it, sender and receiver agree first and the data go without copies, by the sender's RDMA write or the receiver's RDMA read, over all
//! ports; both ends register their buffer unless they still have it registered. Or they go in fragments, registered one after the other
//! while others are under way. A library may limit how many eager messages a receiver has not taken out of their buffers. Inside a node,
//! messages pass through shared memory, copied twice. Receives take messages by source and tag, or any ([`Wanted`]). Source: the MVAPICH papers' descriptions of its protocols.

mod cause;
mod collective;
mod credits;
mod intranode;
mod matching;
mod one_sided;
mod pipeline;
mod rank;
mod registration;
mod rendezvous;
mod rounds;
mod unexpected;

pub use cause::{Cause, Woken};
pub use matching::{Origin, Wanted};
pub use rank::{Rank, World};
pub use rounds::{Member, Round};
