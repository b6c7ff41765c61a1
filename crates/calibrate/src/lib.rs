//! Profiles fitted to measurements of systems, and questions to fitted models: stages of an
//! operation, parameter studies, errors on held-out curves.
#![forbid(unsafe_code)]

pub mod explain;
pub mod held_out;
pub mod software;
pub mod study;
pub mod system;
