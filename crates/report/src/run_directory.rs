//! A run directory: records are appended and flushed as they arise, so that an interrupted run
//! keeps its results.

use crate::error::{Error, Result};
use crate::older_records::with_current_names;
use crate::schema::{End, Line, Run, VERSION};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use verbena_measure::result::{Failure, Finding, Point};

/// Name of the file of records.
pub const RESULTS: &str = "results.jsonl";
/// Name of the table.
pub const POINTS: &str = "points.csv";
/// Name of the report.
pub const REPORT: &str = "report.html";

/// Writer of a run directory.
pub struct Writer {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines.
    written: u64,
}

impl Writer {
    /// Creates the directory and writes the first record.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Taken`] for a directory that already contains results, including those of
    /// several targets, and an I/O error if it cannot be written.
    pub fn create(directory: &Path, run: &Run) -> Result<Writer> {
        fs::create_dir_all(directory).map_err(|e| Error::io(directory, e))?;
        if !inside(directory).is_empty() {
            return Err(Error::Taken(directory.to_owned()));
        }
        let path = directory.join(RESULTS);
        let mut new = File::options();
        new.create_new(true).append(true);
        let file = new.open(&path).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Error::Taken(directory.to_owned()),
            _ => Error::io(&path, e),
        })?;
        let mut writer = Writer {
            path,
            file,
            written: 0,
        };
        writer.append(&Line::Run(run.clone()))?;
        Ok(writer)
    }

    /// Appends a record completely or (e.g. on a full disk) not at all, so that the file remains
    /// readable.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let mut text =
            serde_json::to_string(line).map_err(|error| Error::io(&self.path, error.into()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|error| {
            // The first error is the one to report.
            let _ = self.file.set_len(self.written);
            Error::io(&self.path, error)
        })?;
        self.written += text.len() as u64;
        Ok(())
    }
}

/// A loaded run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// Description of the run.
    pub run: Run,
    /// Measured points.
    pub points: Vec<Point>,
    /// Failures.
    pub failures: Vec<Failure>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// End of the run; `None` if it was cut short.
    pub end: Option<End>,
}

impl Loaded {
    /// Returns the records in the order of a results file.
    pub fn into_lines(self) -> impl Iterator<Item = Line> {
        let points = self.points.into_iter();
        let points = points.map(|point| Line::Point(point.into()));
        std::iter::once(Line::Run(self.run))
            .chain(points)
            .chain(self.failures.into_iter().map(Line::Failure))
            .chain(self.findings.into_iter().map(Line::Finding))
            .chain(self.end.map(Line::End))
    }
}

/// Reads a run directory or a results file.
///
/// # Errors
///
/// Returns an error if there are no results, they cannot be read, or a record is invalid.
pub fn load(path: &Path) -> Result<Loaded> {
    let file = if path.is_dir() {
        path.join(RESULTS)
    } else {
        path.to_owned()
    };
    let bytes = fs::read(&file).map_err(|e| {
        let within = inside(path);
        match e.kind() {
            ErrorKind::NotFound if path.is_dir() => Error::NoRun {
                path: path.to_owned(),
                within,
            },
            _ => Error::io(&file, e),
        }
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| Error::Record {
        path: file.clone(),
        line: 1 + bytes[..error.valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count(),
        reason: "not text in UTF-8".to_owned(),
    })?;
    parse(&file, text)
}

/// Returns the run directories at a path: itself, or those directly within, as a run on several
/// targets creates them.
pub fn runs_at(path: &Path) -> Vec<PathBuf> {
    let within = inside(path);
    match path.join(RESULTS).exists() || within.is_empty() {
        true => vec![path.to_owned()],
        false => within,
    }
}

fn inside(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.join(RESULTS).is_file())
        .collect();
    found.sort();
    found
}

/// Parses a results file; `path` is for messages.
///
/// # Errors
///
/// Returns an error with the line of an invalid record, or for another schema version.
pub fn parse(path: &Path, text: &str) -> Result<Loaded> {
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
    let last = text.lines().count();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cut = index + 1 == last && !text.ends_with('\n');
        let told = |error: serde_json::Error| match cut {
            true => {
                format!("{error}; the file was cut short here: remove this line to read the rest")
            }
            false => error.to_string(),
        };
        match serde_json::from_str(line).map_err(|error| wrong(index + 1, told(error)))? {
            Line::Run(_) => return Err(wrong(index + 1, "a second run in one file".to_owned())),
            Line::Point(point) => loaded.points.push(with_current_names(*point)),
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
    fn run_records_round_trip() {
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
    fn a_directory_of_several_runs_is_not_a_run() {
        let directory = std::env::temp_dir().join(format!("verbena-runs-{}", std::process::id()));
        let empty = directory.join("empty");
        fs::create_dir_all(&empty).unwrap();
        for name in ["b", "a"] {
            let run = Run {
                schema: VERSION,
                ..Run::default()
            };
            Writer::create(&directory.join(name), &run).unwrap();
        }
        assert_eq!(
            runs_at(&directory),
            [directory.join("a"), directory.join("b")]
        );
        assert_eq!(runs_at(&empty), std::slice::from_ref(&empty));
        let over = Writer::create(&directory, &Run::default());
        assert!(over.is_err_and(|error| error.to_string().contains("another run")));
        let message = |path: &Path| load(path).unwrap_err().to_string();
        assert!(
            message(&directory).contains("/a"),
            "{}",
            message(&directory)
        );
        assert!(
            message(&empty).contains("no results.jsonl"),
            "{}",
            message(&empty)
        );
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_no_partial_record() {
        // A full device: the kernel writes no part of a line to /dev/full and reports the error.
        let mut writer = Writer {
            path: PathBuf::from("/dev/full"),
            file: File::options().write(true).open("/dev/full").unwrap(),
            written: 0,
        };
        let error = writer.append(&Line::Run(Run::default())).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        assert_eq!(writer.written, 0);
    }

    #[test]
    fn invalid_files_are_named_with_the_line() {
        assert!(message("").contains("r.jsonl:1"));
        assert!(message("{\"record\":\"run\",\"schema\":99}").contains("schema version 99"));
        assert!(message("{\"record\":\"run\"}").contains("no schema version"));
        let cut = format!("{}\n{{\"record\":\"poi", run());
        assert!(message(&cut).contains("r.jsonl:2"), "{}", message(&cut));
        assert!(message(&cut).contains("cut short"), "{}", message(&cut));
        assert!(message(&format!("{}\n{}", run(), run())).contains("second run"));
    }
}
