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
    /// A line is not understood or contradicts others.
    #[error("{file}, line {line}, {reason}: {text}")]
    Line {
        /// The file.
        file: String,
        /// The number of the line, from 1.
        line: usize,
        /// The problem.
        reason: String,
        /// The line, or its beginning.
        text: String,
    },
    /// The trace has computing, and the speed of its processors is unknown.
    #[error(
        "the trace has computing in flops; give --flops-per-second, the rate by which smpirun \
         counted them: its option --cfg=smpi/host-speed, 20000 if that was not given"
    )]
    NoRate,
    /// The trace is incomplete or inconsistent.
    #[error("{0}")]
    Lacking(String),
}
