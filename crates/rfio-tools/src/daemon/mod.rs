//! Turns `rfiod`'s command line into a running service.

pub mod administration;
pub mod descriptors;
pub mod memory;
pub mod plan;
pub mod privileges;
pub mod ready;
