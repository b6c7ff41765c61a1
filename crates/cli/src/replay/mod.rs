//! What can be replayed on a model: traces of programs, and schedules.

pub mod recorded;
pub mod schedule;
