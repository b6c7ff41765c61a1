//! A section: a part of a tool's output. It begins with a line that is unique to the tool, and
//! takes the lines up to the next section.

use super::lines::Line;
use verbena_measure::result::Point;

/// Result of a section for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The line was parsed, or is known to have no data.
    Known,
    /// The line has no meaning in this section.
    Unknown,
}

/// A part of a tool's output.
pub trait Section {
    /// Parses a line.
    ///
    /// # Errors
    ///
    /// If the line is part of the results and is invalid.
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String>;

    /// Returns the points of all lines.
    ///
    /// # Errors
    ///
    /// If the lines contradict each other.
    fn end(self: Box<Self>) -> Result<Vec<Point>, String>;

    /// Returns whether a line that begins a section of this tool still belongs to this one.
    fn keeps(&self, _: &Line<'_>) -> bool {
        false
    }

    fn without_result(&self) -> &'static str {
        "was it cut short?"
    }
}

/// The user's hints about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Title of the test, if it is missing in the file.
    pub title: Option<String>,
    /// Number of processes of collective operations.
    pub processes: Option<u32>,
}

/// Context for the decision whether a line begins a section.
pub struct Context<'a> {
    /// The user's hints.
    pub hints: &'a Hints,
    /// Unknown lines since the last section.
    pub before: &'a [Line<'a>],
}

/// A section that begins, or the reason why it cannot be parsed.
pub type Begun = Option<Result<Box<dyn Section>, String>>;
