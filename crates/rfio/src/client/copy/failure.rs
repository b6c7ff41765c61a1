//! Why a copy failed, and of which file.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verbena_rfio_protocol::{Status, shown};

use crate::client::error::{Error, is_later};

/// Why a copy failed: which file, and what.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {error}")]
pub struct CopyError {
    /// The file.
    pub subject: String,
    /// What happened.
    pub error: Error,
}

impl CopyError {
    /// RFIO's number for it.
    pub fn status(&self) -> Status {
        self.error.status()
    }

    /// Whether it is no failure: what it is about is left out of a copy, as it is no data.
    pub fn is_left_out(&self) -> bool {
        matches!(self.error, Error::LeftOut(_))
    }

    /// Whether nothing else can be copied: the connection is lost, or the server takes nothing more
    /// or does not let the user in.
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

/// Says which file an error is about.
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

/// A path of this host, for people.
pub(crate) fn shown_path(path: &Path) -> String {
    shown::bytes(path.as_os_str().as_bytes())
}

/// A failure of something on this host.
pub(crate) fn here(error: io::Error) -> Error {
    Error::Local("local file".into(), error)
}
