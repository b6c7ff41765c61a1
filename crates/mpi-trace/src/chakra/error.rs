//! Errors of the reader.

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
    /// A file is not a sequence of messages, or not of this format.
    #[error("{file}, byte {at}: {reason}")]
    Message {
        /// The file.
        file: String,
        /// Where the message begins, in bytes from 0.
        at: u64,
        /// The problem.
        reason: String,
    },
    /// A node cannot be replayed.
    #[error("{file}, node {id} ({name}): {reason}")]
    Node {
        /// The file.
        file: String,
        /// The node's number.
        id: u64,
        /// Its name, or the beginning of it.
        name: String,
        /// The problem.
        reason: String,
    },
    /// The trace is incomplete or inconsistent.
    #[error("{0}")]
    Lacking(String),
}
