//! RFIO's programs: the client tools, and the code shared with the daemon: exit codes,
//! human-readable sizes, and the command lines, which also produce help, manual pages and shell
//! completion.

// Square brackets in help texts are syntax of the command line.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod arguments;
pub mod daemon;
pub mod display;
pub mod exit;
pub mod remote;
pub mod size;
pub mod storage_report;
pub mod tools;
