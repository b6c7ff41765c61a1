//! Results as text, in columns.

pub mod points;
