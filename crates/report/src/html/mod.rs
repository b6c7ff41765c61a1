//! The report: one HTML file that opens offline. The first screen sums up; then a page a question; behind a click each
//! benchmark with all of its figures, all findings, and how it was measured.

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

/// What is known of real adapters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Published figures that the headlines stand beside.
    pub published: &'a [Published],
    /// All claims and the models' answers to them, where these were computed.
    pub reproduction: Option<&'a Reproduction>,
    /// What a profile that was fitted to the first run says of the rest of it.
    pub closed_loop: Option<&'a ClosedLoop>,
}
