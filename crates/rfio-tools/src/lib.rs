//! Code shared by RFIO's programs: exit codes, human-readable sizes, and the command lines, which
//! also produce help, manual pages and shell completion.

pub mod arguments;
pub mod daemon;
pub mod display;
pub mod exit;
pub mod remote;
pub mod size;
pub mod storage_report;
