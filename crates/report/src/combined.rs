//! A run with its launches combined, as in a report, for JSON.

use crate::gather::{Row, rows};
use crate::run_directory::Loaded;
use crate::schema::Run;
use serde::Serialize;
use verbena_measure::result::{Failure, Finding};

/// The run.
#[derive(Debug, Serialize)]
pub struct Combined<'a> {
    run: &'a Run,
    points: Vec<Row>,
    findings: &'a [Finding],
    failures: &'a [Failure],
}

impl Combined<'_> {
    /// Combines the launches of a run.
    pub fn of(run: &Loaded) -> Combined<'_> {
        Combined {
            run: &run.run,
            points: rows(run),
            findings: &run.findings,
            failures: &run.failures,
        }
    }
}
