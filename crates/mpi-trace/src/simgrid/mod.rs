//! Converts time-independent traces of SimGrid (`smpirun -trace-ti`).
//!
//! A trace is text, one line an action of a rank. It has neither times nor communicators, and the
//! tags of `MPI_Sendrecv` are missing. Parsed lines ([`Reader`]) are executed without times, which
//! finds the message of every receive, and then written as calls. The format has no documentation;
//! this follows the traces and the replay of SimGrid 3.32.

mod action;
mod arguments;
mod collective;
mod execution;
mod matching;
mod polling;
mod reader;
mod request;
#[cfg(test)]
mod tests;

pub use reader::Reader;

use std::collections::BTreeMap;
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

/// A trace in our format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The files of the ranks, in order.
    pub ranks: Vec<Vec<u8>>,
    /// Omitted content, and how often it occurred.
    pub left_out: BTreeMap<String, u64>,
    /// Number of receives from any rank or with any tag, whose message was found by executing the
    /// trace.
    pub found: u64,
}

/// Maximum number of ranks.
const MOST_RANKS: usize = 1 << 13;
/// Maximum length of a line in bytes: two counts for each rank.
const LONGEST: u64 = 1 << 20;
/// Maximum length of a message in bytes.
const MOST_BYTES: u64 = 1 << 50;
/// Maximum computing time in nanoseconds.
const MOST_TIME: f64 = (1u64 << 59) as f64;
/// Maximum number of characters of a line in an error.
const TOLD: usize = 200;

/// Reported for a rank whose lines do not end with finalize.
const NO_FINALIZE: &str = "end of a rank, which is assumed after its last line";

/// A line of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Index of the file.
    file: u32,
    /// Its number, from 1.
    number: u32,
    text: Box<str>,
}

impl Line {
    fn fault(&self, files: &[String], reason: impl Into<String>) -> Error {
        Error::Line {
            file: files[self.file as usize].clone(),
            line: self.number as usize,
            reason: reason.into(),
            text: self.text.chars().take(TOLD).collect(),
        }
    }
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    line: Line,
    action: action::Action,
}
