//! The verbs contract as a simple machine: no I/O, no shared memory, no threads.
//!
//! A [`World`] is the state of all objects. [`World::call`] applies a verb, [`World::advance`] a
//! step of the transport: a work request *begins* (its first packet is at the responder), is
//! *answered* (the last one was executed or refused) and is *acknowledged* (its requester knows).
//! Where the specification leaves freedom the machine asks [`choice::Choices`];
//! [`candidate_states::CandidateStates`] follows every choice and every order of concurrent
//! actions, and keeps the states that agree with the observations.
//!
//! **Invariant of acknowledgements.** The end of a reliable request at the responder and its end at
//! the requester are separate: the acknowledgement in between may be late or lost, by a rule or
//! because the responder no longer exists. A request that the responder has executed has exactly
//! one effect there, and one of these outcomes:
//!
//! - success (silent if it is not signaled);
//! - IBV_WC_RETRY_EXC_ERR, if the responder no longer exists or the losses may use up the retries.
//!   It is the oldest request without an acknowledgement; those behind it are flushed, executed or
//!   not;
//! - IBV_WC_WR_FLUSH_ERR, if the queue pair enters the error state for another reason: by
//!   `ibv_modify_qp`, or because it refuses a request of its peer. All behind it are flushed, too.
//!
//! Without success the local buffers of a read or an atomic are undefined. Success is never
//! reported for a request that is not executed, nor behind one that ends in error.
//!
//! **Source.** InfiniBand Architecture Specification volume 1: chapter 9 (transport), 10 (software
//! transport interface), 11 (verbs); the manual pages `ibv_*(3)`.

mod access;
mod applicable;
pub mod candidate_states;
pub mod choice;
pub mod explore;
mod late;
pub mod memory;
pub mod object;
pub mod outcome;
mod overtaking;
mod queue_pair;
pub mod receive;
pub mod requester;
pub mod responder;
pub mod rules;
mod verbs;
mod window;

pub use object::World;
pub use requester::brings_back;
