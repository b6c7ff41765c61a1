//! The verbs calls of a program: what the tracer (`crates/tracer`) tells of each, printed, written and summed up.

pub mod listener;
pub mod record;
pub mod table;
