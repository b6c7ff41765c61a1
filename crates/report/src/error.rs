//! What can be wrong with results: always the file, the line, and what to do.

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
        /// Why.
        source: std::io::Error,
    },
    /// Results are not written over.
    #[error("{} holds the results of another run; name another directory, or remove it", .0.display())]
    Taken(PathBuf),
    /// A directory is not that of a run.
    #[error("{} holds no results.jsonl{}", path.display(), but(within))]
    NoRun {
        /// The directory.
        path: PathBuf,
        /// The runs directly within.
        within: Vec<PathBuf>,
    },
    /// A record is not what the schema says.
    #[error("{}:{line}: not a record of schema {}: {reason}", path.display(), crate::schema::VERSION)]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// The file is of another schema version.
    #[error("{}: schema version {found}, this program reads {}", path.display(), crate::schema::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A foreign file holds nothing that was recognised.
    #[error("{}: {reason}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// What was expected.
        reason: String,
    },
}

/// Which runs there are instead.
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
    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            source,
        }
    }
}
