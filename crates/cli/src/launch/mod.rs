//! Starts programs on the software adapter.

pub mod environment;
pub mod libraries;
pub mod options;
mod reach;
pub mod supervise;
