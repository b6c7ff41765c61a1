//! Which outcomes of verbs calls the tests of a program have taken: completion statuses by
//! operation, `errno` by call, asynchronous events, and events of the connection manager.
//!
//! The tracer (`crates/tracer`) counts them in a data file that all processes map ([`mod@file`]),
//! so a killed process loses nothing, and several runs can share the file. [`seen`] has the counts,
//! [`possible`] all outcomes, [`requirement`] the demands on a test run, [`text`] the report.
#![forbid(unsafe_code)]

pub mod errno;
pub mod file;
pub mod label;
pub mod outcome;
pub mod possible;
pub mod requirement;
pub mod seen;
pub mod text;
