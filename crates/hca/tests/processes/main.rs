//! Tests of the adapter with several processes on one host: stopped processes, invalid messages,
//! and exhausted resources.

mod callers;
mod crowd;
mod rig;
