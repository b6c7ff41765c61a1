//! The verbs contract as a simple machine: no I/O, no shared memory, no threads.
//!
//! A [`World`] is the state of all objects. [`World::call`] applies a verb, [`World::advance`] a
//! step of the transport: a work request *begins* (its first packet is at the responder), is
//! *answered* (the last one was executed or refused) and is *acknowledged* (its requester knows).
//! Where the specification leaves freedom the machine asks [`choice::Choices`];
//! [`candidate_states::CandidateStates`] follows every choice and every order of concurrent
//! actions, and keeps the states that agree with the observations.
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
