//! The report: one HTML file that opens offline. Verdict first, then environment, sections by layer, each chart with the
//! table of its figures, warnings, methods, the command that reproduces it.

mod explanation;
mod frame;
mod page;
mod reproduction;
mod section;
mod theme;
mod verdict;

pub use explanation::{Operation, explanation};
pub use page::page;
pub use reproduction::{Claim, Fitted, Paper, Plot, Reproduction, reproduction_page};

/// What the report needs to know of a benchmark beyond its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its group's title.
    pub group: String,
    /// What it answers.
    pub answers: String,
    /// Where it comes from.
    pub source: String,
    /// The parameter on the x axis.
    pub axis: String,
}
