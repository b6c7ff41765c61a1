//! The books of a session: every record in memory, and where asked in a run directory as soon as it exists.

use crate::failure::Failure;
use std::path::Path;
use verbena_report::run_directory::{Loaded, Writer};
use verbena_report::schema::{Line, Run};

/// Everything of a session, as it would be read back.
pub struct Books {
    /// What was taken so far.
    pub loaded: Loaded,
    writer: Option<Writer>,
}

impl Books {
    /// For a run: in memory, and where asked in a directory.
    pub fn open(directory: Option<&Path>, run: Run) -> Result<Books, Failure> {
        let writer = directory
            .map(|path| Writer::create(path, &run))
            .transpose()?;
        let loaded = Loaded {
            run,
            ..Loaded::default()
        };
        Ok(Books { loaded, writer })
    }

    /// Takes a record.
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
