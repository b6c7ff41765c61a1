//! What it takes to start a program on the software adapter.

pub mod environment;
pub mod libraries;
pub mod options;
mod reach;
pub mod supervise;
