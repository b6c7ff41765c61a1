//! Inside the adapter: memfree, sections 3 and 4.1 to 4.4, and further costs that no public tool
//! measures.

pub mod contexts;
pub mod footprint;
mod knee_search;
pub mod loopback;
pub mod registration;
pub mod scatter;
pub mod translation;
