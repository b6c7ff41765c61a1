//! One connection on the server: bytes to frames, frames to requests, answers to bytes.

mod bearer;
mod channel;
pub mod confinement;
pub mod conversation;
mod entrance;
pub mod greeting;
mod input;
mod lane;
mod output;
mod scopes;
pub(crate) mod serving;
