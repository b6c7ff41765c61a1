//! The verbs contract as a simple machine: no input or output, no shared memory, no threads.
//!
//! A [`World`] is everything that exists at one moment. [`World::call`] is what a verb does to it,
//! [`World::advance`] what the transport does by itself: a work request *begins* (its first packet
//! is at the responder), is *answered* (the last one was executed or refused) and is *acknowledged*
//! (its requester knows). Where the specification leaves freedom a [`choice::Choices`] is asked,
//! and [`belief::Belief`] follows every choice and every order of what happens at the same time,
//! and keeps those that agree with what was observed.
//!
//! **Source.** InfiniBand Architecture Specification volume 1: chapter 9 (transport), 10 (software
//! transport interface), 11 (verbs); the manual pages `ibv_*(3)`.

mod access;
mod applicable;
pub mod belief;
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
mod verbs;
mod window;

pub use object::World;
pub use requester::brings_back;
