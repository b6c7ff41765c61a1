//! Errors of a copy and the files that they concern.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verbena_rfio_protocol::{Status, shown};

use crate::error::{Error, is_temporary};

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
            Error::Refused(refusal) => is_temporary(refusal.status),
            error => error.is_authentication_failure(),
        }
    }
}

/// Adds the file that an error concerns.
pub(crate) trait ErrorSubject<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError>;
}

impl<T> ErrorSubject<T> for Result<T, Error> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(|error| CopyError {
            subject: subject.to_string(),
            error,
        })
    }
}

impl<T> ErrorSubject<T> for io::Result<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(local_error).about(subject)
    }
}

/// Formats a local path for messages.
pub(crate) fn display_path(path: &Path) -> String {
    shown::bytes(path.as_os_str().as_bytes())
}

/// Converts an error of a local file.
pub(crate) fn local_error(error: io::Error) -> Error {
    Error::Local("local file".into(), error)
}
