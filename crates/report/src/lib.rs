//! Results of runs: reads and writes them as JSON Lines and CSV, and writes reports in one HTML
//! file.
//!
//! A run directory contains `results.jsonl` (all results, one record per line, [`schema`]),
//! `points.csv` (the same for spreadsheets) and `report.html` (for people). [`export`] writes the
//! figures for other programs; [`expectation`] checks them against an adapter's expected values.
//! The report only draws: all its statistics are in the records, except the combination of launches
//! ([`gather`]).
#![forbid(unsafe_code)]

pub mod chart;
pub mod combined;
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
pub mod ip_table;
pub mod older_records;
pub mod outcome;
pub mod points_table;
mod pooled_distribution;
pub mod run_directory;
pub mod schema;
pub mod summary;

mod error;
pub use error::{Error, Result};
