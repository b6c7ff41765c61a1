//! Bandwidth and message rate.

pub mod size;
pub mod stream;
pub mod sweep;
