//! Running benchmarks: what is wanted ([`plan`]), on what ([`target`]), by which processes ([`local`], [`job`]), and where
//! results go ([`session`]).

pub mod environment;
pub mod job;
pub mod local;
pub mod options;
pub mod plan;
pub mod process;
pub mod progress;
pub mod session;
pub mod target;
