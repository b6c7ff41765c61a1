//! The client's errors as Python's: `OSError`, of which Python makes the class that the number calls for.

use std::ffi::OsStr;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use verbena_rfio::client::Error;
use verbena_rfio_protocol::Status;

/// The errno that says most nearly what happened.
fn errno(error: &Error) -> i32 {
    // A stream that ends early has no number of the system's, with TLS for example.
    if let Error::Connection(why) = error
        && why.raw_os_error().is_none()
    {
        return libc::ECONNRESET;
    }
    match error.status() {
        Status::NO_SUCH_HOST => libc::EHOSTUNREACH,
        Status::TIMED_OUT => libc::ETIMEDOUT,
        Status::NAME_TOO_LONG => libc::ENAMETOOLONG,
        Status::BAD_VERSION => libc::EPROTONOSUPPORT,
        Status::CONNECTION_DROPPED => libc::ECONNRESET,
        Status::NOT_SUPPORTED => libc::EOPNOTSUPP,
        status => status.as_errno().unwrap_or(libc::EIO),
    }
}

/// What is raised for an error about a file.
pub fn about(error: &Error, url: &OsStr) -> PyErr {
    PyOSError::new_err((errno(error), error.to_string(), url.to_owned()))
}

/// What is raised for an error about two files.
pub fn about_both(error: &Error, old: &OsStr, new: &OsStr) -> PyErr {
    let nothing: Option<i32> = None;
    let arguments = (
        errno(error),
        error.to_string(),
        old.to_owned(),
        nothing,
        new.to_owned(),
    );
    PyOSError::new_err(arguments)
}

/// An error with a number of the system's.
pub fn system(what: &str, errno: i32) -> Error {
    Error::Local(what.into(), std::io::Error::from_raw_os_error(errno))
}

/// Results of the client as Python takes them.
pub trait About<T> {
    /// The error is about this file.
    fn about(self, url: &OsStr) -> PyResult<T>;
}

impl<T> About<T> for Result<T, Error> {
    fn about(self, url: &OsStr) -> PyResult<T> {
        self.map_err(|error| about(&error, url))
    }
}
