//! One connection on the server: bytes to frames, frames to requests, answers to bytes.

pub mod bearer;
pub mod channel;
pub mod confinement;
pub mod conversation;
mod entrance;
pub mod greeting;
pub mod input;
mod lane;
pub mod output;
pub mod scopes;
pub mod serving;
