//! Clocks, recorders, statistics and comparison for benchmarks.
//!
//! Pure except for [`bus`], [`clock`], [`memory`], [`pace`], [`processors`], [`start`],
//! [`topology`] and [`turns`], which read the machine. `docs/methods-rules.md` numbers the rules
//! that this crate follows; comments cite them as "rule N". No statistic panics on malformed input:
//! too few samples give `None`, never 0 or a guess (rule 6).
#![deny(unsafe_code)]

pub mod bound;
pub mod bus;
pub mod clock;
pub mod compare;
mod control_group;
pub mod converge;
#[allow(unsafe_code, reason = "a call of the C library")]
pub mod memory;
pub mod pace;
#[allow(unsafe_code, reason = "system calls")]
pub mod processors;
pub mod random;
pub mod recorder;
pub mod result;
pub mod sample;
#[allow(unsafe_code, reason = "a shared page between processes")]
pub mod start;
pub mod stats;
pub mod topology;
pub mod turns;
pub mod unit;
pub mod warning;
