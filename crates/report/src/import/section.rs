//! What a part of a tool's output is: it begins with a line that its tool alone writes, and takes
//! the lines up to the next.

use super::lines::Line;
use verbena_measure::result::Point;

/// What a section makes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It was read, or is known to hold nothing to read.
    Known,
    /// It means nothing to this section.
    Unknown,
}

/// A part of a tool's output.
pub trait Section {
    /// Takes a line.
    ///
    /// # Errors
    ///
    /// When the line is part of the results and cannot be right.
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String>;

    /// The points of all lines, and where there are none, why that may be.
    ///
    /// # Errors
    ///
    /// If the lines contradict each other.
    fn end(self: Box<Self>) -> Result<Vec<Point>, String>;

    /// Whether a line that begins a section of this tool belongs to this one.
    fn keeps(&self, _: &Line<'_>) -> bool {
        false
    }

    /// Why there may be no result.
    fn without_result(&self) -> &'static str {
        "was it cut short?"
    }
}

/// What the reader of a file knows and the file does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// The title of the test, where it is not in the file.
    pub title: Option<String>,
    /// Processes of collective operations.
    pub processes: Option<u32>,
}

/// What a tool is told when it is asked whether a line begins a section of its own.
pub struct Context<'a> {
    /// What the reader of the file knows.
    pub hints: &'a Hints,
    /// The lines since the last section that meant nothing.
    pub before: &'a [Line<'a>],
}

/// A section that begins, or why it cannot be read.
pub type Begun = Option<Result<Box<dyn Section>, String>>;
