//! Runs as pages show them.

use crate::gather::Row;
use crate::run_directory::Loaded;

/// A run with its rows.
pub struct Shown<'a> {
    pub run: &'a Loaded,
    pub rows: Vec<Row>,
}

impl Shown<'_> {
    pub fn of<'a>(&'a self, benchmark: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.benchmark == benchmark)
    }
}
