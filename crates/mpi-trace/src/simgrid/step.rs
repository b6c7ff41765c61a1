//! Lines of a rank, before and after parsing.

use super::action::Action;
use super::error::Error;

/// Maximum number of characters of a line in an error.
const TOLD: usize = 200;

/// A line of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Index of the file.
    pub file: u32,
    /// Its number, from 1.
    pub number: u32,
    pub text: Box<str>,
}

impl Line {
    pub fn fault(&self, files: &[String], reason: impl Into<String>) -> Error {
        Error::Line {
            file: files[self.file as usize].clone(),
            line: self.number as usize,
            reason: reason.into(),
            text: self.told(),
        }
    }

    /// Returns the line for an error, or its beginning.
    pub fn told(&self) -> String {
        self.text.chars().take(TOLD).collect()
    }
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub line: Line,
    pub action: Action,
}
