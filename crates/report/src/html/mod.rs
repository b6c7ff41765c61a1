//! The report: one HTML file that opens offline. The first screen is a summary, followed by a page
//! per question; folded below are each benchmark with all of its figures, all findings, and the
//! method.

mod application;
mod changes;
mod charts_page;
mod coverage;
mod curves;
mod explanation;
mod figures;
mod fitted_profile;
mod frame;
mod input;
mod lead;
mod page;
mod question;
mod reproduction;
mod script;
mod section;
mod shown;
mod theme;
mod tile;
mod validation;
mod verdict;

pub use application::{Application, Assumptions, OnSystem, Spent, application};
pub use charts_page::{ChartSection, charts_page};
pub use coverage::coverage_page;
pub use explanation::{Operation, explanation};
pub use fitted_profile::{Figure, FittedProfile, Predicted};
pub use input::{Beside, Described};
pub use page::page;
pub use reproduction::{Claim, Fitted, Paper, Plot, Reproduction, reproduction_page};
pub use validation::{Held, Validation};
