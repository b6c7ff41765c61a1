//! Errors of a measurement.

use std::io;
use std::path::PathBuf;

/// The reason why a measurement cannot run or be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Results cannot be read or written.
    #[error(transparent)]
    Results(#[from] verbena_report::Error),

    /// Invalid or unknown input.
    #[error("{0}")]
    Input(String),

    /// A benchmark cannot run here.
    #[error("{0}")]
    Suite(String),

    /// The software adapter cannot be used.
    #[error("{0}")]
    Adapter(String),

    /// The command exists, but the kernel does not execute it.
    #[error("cannot execute {command:?}: {source}")]
    NotExecutable {
        /// The command as typed.
        command: String,
        /// The system's error.
        source: io::Error,
    },

    /// The command is in no directory of PATH.
    #[error("cannot find the command {0:?}; give its path, or check PATH")]
    NotFound(String),

    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// A directory for temporary files cannot be created.
    #[error(
        "cannot create a directory for temporary files in {path}: {source}; set TMPDIR to another \
         directory"
    )]
    Temporary {
        /// The parent.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A directory for a socket cannot be created, and TMPDIR is too long for one.
    #[error(
        "cannot create a directory for a socket in {path}: {source}; set TMPDIR to a directory of \
         at most {longest} bytes"
    )]
    LongTemporary {
        /// The parent that was used instead.
        path: PathBuf,
        /// The longest possible TMPDIR, in bytes.
        longest: usize,
        /// The system's error.
        source: io::Error,
    },

    /// A directory cannot be created or read.
    #[error("cannot use the directory {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Failure {
    /// Converts an error of `exec` to the shell's two categories.
    pub fn of_exec(command: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Failure::NotFound(command),
            _ => Failure::NotExecutable { command, source },
        }
    }
}
