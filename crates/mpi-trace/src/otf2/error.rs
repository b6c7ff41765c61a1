//! Errors of the import.

use std::io;

/// Reason why an archive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text cannot be read.
    #[error("cannot read the output of otf2-print: {0}")]
    Unreadable(#[from] io::Error),
    /// A line is not understood.
    #[error("cannot parse line {line} of the output of otf2-print, {reason}: {text}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        reason: String,
        /// The line, or its beginning.
        text: String,
    },
    /// The trace is incomplete.
    #[error("{0}")]
    Lacking(String),
}

/// Maximum number of characters of a line in an error.
const TOLD: usize = 200;

impl Error {
    pub(super) fn of_line(line: usize, text: &str, reason: impl Into<String>) -> Error {
        Error::Line {
            line,
            reason: reason.into(),
            text: text.chars().take(TOLD).collect(),
        }
    }
}
