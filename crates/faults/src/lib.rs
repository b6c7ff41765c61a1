//! Rules that make verbs calls of a program fail (`verbena run --fault`, `verbena faults sweep`),
//! and the record of the failures.
//!
//! The tracer, which is preloaded, refuses a call in place of the adapter: the call returns its
//! error and does nothing, so a refusal looks like one of an adapter. A rule counts the
//! calls of each process by themselves, and chance is a hash of the rule, the process's command
//! line and the count: threads may interleave as they like, and a seed gives the same draws.

pub mod call;
pub mod firing;
pub mod rule;
pub mod rules;
