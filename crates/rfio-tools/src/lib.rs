//! What RFIO's programs share: exit codes, sizes as people write them, and the command lines themselves, from which help,
//! manual pages and shell completion are made.

pub mod arguments;
pub mod daemon;
pub mod display;
pub mod exit;
pub mod remote;
pub mod size;
pub mod storage_report;
