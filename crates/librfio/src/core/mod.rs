//! Semantics of the functions, independent of C.

pub mod beside;
pub mod file;
pub mod foreign;
pub mod forks;
pub mod place;
pub mod reading;
pub mod sessions;
pub mod table;
