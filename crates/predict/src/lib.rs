//! Applications of the timing models: published claims, explanations, sweeps, calibration,
//! schedules of messages.
#![forbid(unsafe_code)]

pub mod application;
pub mod bench;
pub mod calibrate;
pub mod claims;
pub mod closed_loop;
pub mod expectation;
pub mod explain;
pub mod figures;
pub mod goal;
pub mod host;
pub mod messages;
pub mod recorded;
pub mod sensitivity;
pub mod suite;
pub mod sweep;
pub mod table;
pub mod validation;
mod workers;
