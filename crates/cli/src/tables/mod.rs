//! Results as text, in columns.

pub mod counters;
pub mod points;
pub mod trace;
pub mod validation;
