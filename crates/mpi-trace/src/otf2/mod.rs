//! Converts traces in OTF2, the format of Score-P.
//!
//! OTF2 is binary, and its library is in C. Its program `otf2-print` prints an archive as text,
//! which is parsed here: definitions ([`Definitions`]), then events in order of time ([`import`]).
//! The output format has no documentation; this follows the output of `otf2-print` 3.0. A line that
//! is not understood ends the import with an error.

mod amounts;
mod collective;
mod definitions;
mod error;
mod event;
mod importer;
mod rank;
mod records;
#[cfg(test)]
mod tests;

pub use definitions::Definitions;
pub use error::Error;
pub use importer::{Imported, import};
pub use rank::Unmeasured;
