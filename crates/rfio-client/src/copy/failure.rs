//! Errors of a copy and the files that they concern.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verbena_rfio_protocol::{Status, shown};

use crate::error::{Error, is_later};

/// An error of a copy, and the file that it concerns.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {error}")]
pub struct CopyError {
    /// The file.
    pub subject: String,
    /// The error.
    pub error: Error,
}

impl CopyError {
    /// Returns RFIO's status code for the error.
    pub fn status(&self) -> Status {
        self.error.status()
    }

    /// Returns whether this is not a failure: the file is not data and is omitted from the copy.
    pub fn is_left_out(&self) -> bool {
        matches!(self.error, Error::LeftOut(_))
    }

    /// Returns whether nothing else can be copied: the connection is lost, the server accepts no
    /// more requests, or it rejects the user.
    pub fn is_loss(&self) -> bool {
        match &self.error {
            Error::Unreachable(..) | Error::Connection(_) | Error::Dropped(_) | Error::TimedOut => {
                true
            }
            Error::Refused(refusal) => is_later(refusal.status),
            error => error.is_of_identity(),
        }
    }
}

/// Adds the file that an error concerns.
pub(crate) trait About<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError>;
}

impl<T> About<T> for Result<T, Error> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(|error| CopyError {
            subject: subject.to_string(),
            error,
        })
    }
}

impl<T> About<T> for io::Result<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(here).about(subject)
    }
}

/// Formats a local path for messages.
pub(crate) fn shown_path(path: &Path) -> String {
    shown::bytes(path.as_os_str().as_bytes())
}

/// Converts an error of a local file.
pub(crate) fn here(error: io::Error) -> Error {
    Error::Local("local file".into(), error)
}
