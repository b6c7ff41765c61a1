//! Programs on the software adapter, or with traced verbs calls.
//!
//! [`libraries`] finds the adapter's shared objects, and [`environment`] has the variables with
//! which a program loads them. [`obstacle()`] detects programs that cannot load them. [`supervise`]
//! runs a program to its end and forwards signals to it. [`trace`] receives the verbs calls of a
//! program from the tracer (`crates/tracer`), and [`faults`] has it refuse some. [`mount`] shows a
//! program other directories in `/sys/class`, and [`namespace`] makes namespaces.
#![deny(unsafe_code)]

pub mod environment;
pub mod faults;
pub mod libraries;
pub mod mount;
pub mod namespace;
mod obstacle;
pub mod supervise;
pub mod trace;

pub use obstacle::obstacle;
