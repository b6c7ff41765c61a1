//! Errors of the import.

use std::io;

/// Reason why a trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// Its name.
        file: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file is of another format, or a call cannot be imported.
    #[error("{file}, {fault}")]
    File {
        /// The file.
        file: String,
        /// The place and the problem.
        fault: crate::Fault,
    },
    /// The trace is incomplete or inconsistent.
    #[error("{0}")]
    Lacking(String),
}
