//! The adapter's counters: each process of a program leaves one file; these are summed and printed.

pub mod collect;
pub mod directory;
pub mod table;
