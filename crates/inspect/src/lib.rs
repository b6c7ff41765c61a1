//! Inspects the software adapter and this machine.
//!
//! [`info`] shows devices and the processes on them. [`doctor`] checks which features work on this
//! machine. [`capture`] collects the packets of processes and writes them for packet analysers.
#![forbid(unsafe_code)]

pub mod capture;
pub mod doctor;
pub mod info;
