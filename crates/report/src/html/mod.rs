//! The report: one HTML file that opens offline. The first screen is a summary, followed by a page
//! per question; folded below are each benchmark with all of its figures, all findings, and the
//! method.

mod application;
mod changes;
mod closed_loop;
mod curves;
mod explanation;
mod figures;
mod frame;
mod lead;
mod page;
mod question;
mod reproduction;
mod script;
mod section;
mod theme;
mod tile;
mod validation;
mod verdict;

pub use application::{Application, OnSystem, Spent, application};
pub use closed_loop::{ClosedLoop, Figure, Predicted};
pub use explanation::{Operation, explanation};
pub use page::page;
pub use reproduction::{Claim, Fitted, Paper, Plot, Reproduction, reproduction_page};
pub use validation::{Held, Validation};

use crate::summary::Published;

/// Description of a benchmark, in addition to its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Title of its group.
    pub group: String,
    /// The question that it answers.
    pub answers: String,
    /// Its source.
    pub source: String,
    /// The parameter on the x axis.
    pub axis: String,
}

/// Data about real adapters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Published figures to compare with the headlines.
    pub published: &'a [Published],
    /// All claims with the models' results, if these were computed.
    pub reproduction: Option<&'a Reproduction>,
    /// Predictions of a profile fitted to a part of the first run.
    pub closed_loop: Option<&'a ClosedLoop>,
}
