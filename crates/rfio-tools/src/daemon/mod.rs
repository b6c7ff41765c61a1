//! `rfiod`: from the command line to a running service.

pub mod administration;
pub mod descriptors;
pub mod memory;
pub mod plan;
pub mod privileges;
pub mod ready;
