//! Bandwidth and message rate.

pub mod receiver;
pub mod size;
pub mod stream;
pub mod sweep;
