//! Results in; JSON Lines, CSV and one HTML file out.
//!
//! A run directory holds `results.jsonl` (everything, one record a line, [`schema`]), `points.csv` (the same for
//! spreadsheets) and `report.html` (for people). [`export`] has the figures for other programs, and [`expectation`]
//! whether they are those expected of an adapter. The report only draws what was computed: there is no statistic in it
//! that is not in the records, but for the combination of launches ([`gather`]).
#![forbid(unsafe_code)]

pub mod chart;
pub mod comparison;
pub mod csv;
pub mod expectation;
pub mod export;
pub mod file;
pub mod gather;
pub mod headline;
pub mod history;
pub mod html;
pub mod import;
pub mod meaning;
pub mod outcome;
mod pool;
pub mod run_directory;
pub mod schema;
pub mod summary;

mod error;
pub use error::{Error, Result};
