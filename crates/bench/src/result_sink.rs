//! The result sink of a session: keeps every record in memory and, if requested, appends it at once
//! to a run directory.

use crate::Failure;
use std::path::Path;
use verbena_report::run_directory::{Loaded, Writer};
use verbena_report::schema::{Line, Run};

/// All records of a session, in the form in which they would be loaded.
pub struct ResultSink {
    pub loaded: Loaded,
    writer: Option<Writer>,
}

impl ResultSink {
    /// Opens the sink for a run, in memory and optionally in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created.
    pub fn open(directory: Option<&Path>, run: Run) -> Result<ResultSink, Failure> {
        let writer = directory
            .map(|path| Writer::create(path, &run))
            .transpose()?;
        let loaded = Loaded {
            run,
            ..Loaded::default()
        };
        Ok(ResultSink { loaded, writer })
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn take(&mut self, line: Line) -> Result<(), Failure> {
        if let Some(writer) = &mut self.writer {
            writer.append(&line)?;
        }
        match line {
            Line::Run(run) => self.loaded.run = run,
            Line::Point(point) => self.loaded.points.push(*point),
            Line::Failure(failure) => self.loaded.failures.push(failure),
            Line::Finding(finding) => self.loaded.findings.push(finding),
            Line::End(end) => self.loaded.end = Some(end),
        }
        Ok(())
    }
}
