//! Rules that make verbs calls and requests of a program fail (`verbena run --fault`, `verbena
//! faults sweep`), and the record of the failures.
//!
//! The tracer, which is preloaded, refuses a call in place of the adapter: the call returns its
//! error and does nothing, so a refusal looks like one of an adapter. The adapter itself plants the
//! cause by which a request or receive fails; its consequences follow from the transport's rules. A
//! rule counts the calls of each process, and the requests of each queue pair, by themselves, and
//! chance is a hash of the rule, the process's command line, the object and the count: threads may
//! interleave as they like, and a seed gives the same draws.

pub mod alive;
pub mod call;
pub mod cm;
pub mod event;
pub mod firing;
pub mod limit;
pub mod link;
pub mod peer;
pub mod process_rules;
pub mod queue;
pub mod rule;
pub mod rules;
pub mod site;
pub mod status;
