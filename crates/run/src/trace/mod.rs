//! The verbs calls of a program: receives the tracer's (`crates/tracer`) records, prints them, and
//! summarises them.

pub mod listener;
pub mod record;
pub mod table;
