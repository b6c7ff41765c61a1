//! Traces in OTF2, the format of Score-P, become traces of ours.
//!
//! OTF2 is binary, and the library that reads it is C. Its program `otf2-print` prints an archive as text, which is read here: definitions
//! ([`Definitions`]), then events, in the order of their times ([`import`]). What `otf2-print` 3.0 prints was looked at; there is no
//! document of it, so a line that is not understood ends the import and is told.

mod amounts;
mod collective;
mod definitions;
mod event;
mod importer;
mod rank;
mod records;
#[cfg(test)]
mod tests;

pub use definitions::Definitions;
pub use importer::{Imported, import};

use std::io;

/// Why an archive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text does not come.
    #[error("cannot read what otf2-print prints: {0}")]
    Unreadable(#[from] io::Error),
    /// A line is not as it should be.
    #[error("line {line} of what otf2-print prints is not understood, {reason}: {text}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
        /// The line, or its beginning.
        text: String,
    },
    /// The trace as a whole lacks something.
    #[error("{0}")]
    Lacking(String),
}

/// Characters of a line that are told.
const TOLD: usize = 200;

impl Error {
    fn of_line(line: usize, text: &str, reason: impl Into<String>) -> Error {
        Error::Line {
            line,
            reason: reason.into(),
            text: text.chars().take(TOLD).collect(),
        }
    }
}
