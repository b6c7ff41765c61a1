//! Patterns over many processes.

pub mod flows;
pub mod halo;
pub mod matrix;
