//! A run directory: records are appended and flushed as they arise, so that an interrupted run keeps what it has.

use crate::error::{Error, Result};
use crate::schema::{End, Line, Run, VERSION};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use verbena_measure::result::{Failure, Finding, Point};

/// The file of records.
pub const RESULTS: &str = "results.jsonl";
/// The table.
pub const POINTS: &str = "points.csv";
/// The report.
pub const REPORT: &str = "report.html";

/// A run directory being written.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Writer {
    /// Makes the directory and writes the first record. A directory that already holds results is refused.
    pub fn create(directory: &Path, run: &Run) -> Result<Writer> {
        fs::create_dir_all(directory).map_err(|e| Error::io(directory, e))?;
        let path = directory.join(RESULTS);
        let file = File::create_new(&path).map_err(|e| Error::io(&path, e))?;
        let mut writer = Writer {
            path,
            file: BufWriter::new(file),
        };
        writer.append(&Line::Run(run.clone()))?;
        Ok(writer)
    }

    /// Appends a record and flushes it.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line).expect("records are plain data");
        let fail = |e| Error::io(&self.path, e);
        writeln!(self.file, "{text}")
            .and_then(|()| self.file.flush())
            .map_err(fail)
    }
}

/// A run as read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// What was run.
    pub run: Run,
    /// Measured points.
    pub points: Vec<Point>,
    /// Failures.
    pub failures: Vec<Failure>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// How it ended; `None` when it was cut short.
    pub end: Option<End>,
}

/// Reads a run directory, or a results file itself.
pub fn load(path: &Path) -> Result<Loaded> {
    let file = if path.is_dir() {
        path.join(RESULTS)
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).map_err(|e| Error::io(&file, e))?;
    parse(&file, &text)
}

fn parse(path: &Path, text: &str) -> Result<Loaded> {
    let wrong = |line: usize, reason: String| Error::Record {
        path: path.to_owned(),
        line,
        reason,
    };
    let mut lines = text.lines().enumerate();
    let (_, first) = lines
        .next()
        .ok_or_else(|| wrong(1, "the file is empty".to_owned()))?;
    check_version(path, first)?;
    let mut loaded = Loaded::default();
    match serde_json::from_str(first) {
        Ok(Line::Run(run)) => loaded.run = run,
        Ok(_) => return Err(wrong(1, "the first record must be the run".to_owned())),
        Err(error) => return Err(wrong(1, error.to_string())),
    }
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line).map_err(|error| wrong(index + 1, error.to_string()))? {
            Line::Run(_) => return Err(wrong(index + 1, "a second run in one file".to_owned())),
            Line::Point(point) => loaded.points.push(*point),
            Line::Failure(failure) => loaded.failures.push(failure),
            Line::Finding(finding) => loaded.findings.push(finding),
            Line::End(end) => loaded.end = Some(end),
        }
    }
    Ok(loaded)
}

fn check_version(path: &Path, first: &str) -> Result<()> {
    let value: serde_json::Value = serde_json::from_str(first).map_err(|error| Error::Record {
        path: path.to_owned(),
        line: 1,
        reason: error.to_string(),
    })?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(found) => Err(Error::Version {
            path: path.to_owned(),
            found,
        }),
        None => Err(Error::Record {
            path: path.to_owned(),
            line: 1,
            reason: "no schema version".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> String {
        let run = Run {
            schema: VERSION,
            label: "x".to_owned(),
            ..Run::default()
        };
        serde_json::to_string(&Line::Run(run)).unwrap()
    }

    fn message(text: &str) -> String {
        parse(Path::new("r.jsonl"), text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = std::env::temp_dir().join(format!("verbena-run-{}", std::process::id()));
        let run = Run {
            schema: VERSION,
            label: "a".to_owned(),
            ..Run::default()
        };
        let mut writer = Writer::create(&directory, &run).unwrap();
        let end = End {
            outcome: "complete".to_owned(),
            seconds: 1.5,
            reason: None,
        };
        writer.append(&Line::End(end.clone())).unwrap();
        let loaded = load(&directory).unwrap();
        assert_eq!((loaded.run, loaded.end), (run.clone(), Some(end)));
        assert!(
            Writer::create(&directory, &run).is_err(),
            "results are not overwritten"
        );
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn wrong_files_are_named_with_the_line() {
        assert!(message("").contains("r.jsonl:1"));
        assert!(message("{\"record\":\"run\",\"schema\":99}").contains("schema version 99"));
        assert!(message("{\"record\":\"run\"}").contains("no schema version"));
        let cut = format!("{}\n{{\"record\":\"poi", run());
        assert!(message(&cut).contains("r.jsonl:2"), "{}", message(&cut));
        assert!(message(&format!("{}\n{}", run(), run())).contains("second run"));
    }
}
