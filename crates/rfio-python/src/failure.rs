//! Converts the client's errors to Python's `OSError`, for which Python selects the subclass by
//! errno.

use std::ffi::OsStr;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use verbena_rfio_client::Error;
use verbena_rfio_protocol::Status;

/// Returns the errno closest to an error.
fn errno(error: &Error) -> i32 {
    // The early end of a stream has no errno, for example with TLS.
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

/// Returns the exception for an error with a file.
pub fn about(error: &Error, url: &OsStr) -> PyErr {
    PyOSError::new_err((errno(error), error.to_string(), url.to_owned()))
}

/// Returns the exception for an error with two files.
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

/// Returns an error with an errno.
pub fn system(what: &str, errno: i32) -> Error {
    Error::Local(what.into(), std::io::Error::from_raw_os_error(errno))
}

/// Conversion of the client's results to Python's.
pub trait ErrorContext<T> {
    /// Names the file that an error is about.
    ///
    /// # Errors
    /// `OSError` for the client's error.
    fn about(self, url: &OsStr) -> PyResult<T>;
}

impl<T> ErrorContext<T> for Result<T, Error> {
    fn about(self, url: &OsStr) -> PyResult<T> {
        self.map_err(|error| about(&error, url))
    }
}
