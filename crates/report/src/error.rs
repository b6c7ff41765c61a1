//! Errors in results: each names the file, the line, and a remedy.

use std::path::PathBuf;

/// Result of reading or writing results.
pub type Result<T> = std::result::Result<T, Error>;

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// The directory holds another run's results, which are not overwritten.
    #[error("{} holds the results of another run; name another directory, or remove it",
        .0.display())]
    Taken(PathBuf),
    /// A directory holds no run.
    #[error("{} holds no results.jsonl{}", path.display(), but(within))]
    NoRun {
        /// The directory.
        path: PathBuf,
        /// Runs directly within it.
        within: Vec<PathBuf>,
    },
    /// A record does not match the schema.
    #[error("{}:{line}: not a record of schema {}: {reason}", path.display(),
        crate::schema::VERSION)]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's error.
        reason: String,
    },
    /// The file has another schema version.
    #[error("{}: schema version {found}, this program reads {}", path.display(),
        crate::schema::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A file of another tool has no recognised contents.
    #[error("{}: {reason}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// The expected contents.
        reason: String,
    },
}

fn but(within: &[PathBuf]) -> String {
    let names: Vec<String> = within
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(", but the runs {}", names.join(", ")),
    }
}

impl Error {
    /// Returns the error of a file or directory.
    pub fn io(path: &std::path::Path, source: std::io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            source,
        }
    }
}
