//! Computes the published claims and figures by the timing models: benchmarks and programs of the
//! papers, and published curves for validation.
#![forbid(unsafe_code)]

pub mod anchored;
pub mod application;
pub mod bench;
pub mod claims;
pub mod figures;
pub mod messages;
pub mod sensitivity;
pub mod suite;
pub mod summary;
pub mod table;
pub mod validation;
pub mod workers;
