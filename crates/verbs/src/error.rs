//! Errors of verbs calls: the call, its object and the reason.

use std::io;

/// The result of a verbs call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a verbs call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library could not be loaded or lacks a function.
    #[error("cannot load {library}: {reason}")]
    Load {
        /// Path or name as given.
        library: String,
        /// The loader's message, or the missing symbol.
        reason: String,
    },
    /// A call failed with an `errno`.
    #[error("{call} on {object} failed: {}", io::Error::from_raw_os_error(*errno))]
    Call {
        /// The C function.
        call: &'static str,
        /// The object and its main attributes.
        object: String,
        /// The error number.
        errno: i32,
    },
    /// A call failed for lack of memory, and the process's limit of locked memory explains it.
    #[error("{call} on {object} failed: {explanation}")]
    Locked {
        /// The C function.
        call: &'static str,
        /// The object.
        object: String,
        /// The limit and the required size.
        explanation: String,
    },
    /// The library or device does not support the operation.
    #[error("{call} is not supported by {object}")]
    Unsupported {
        /// The C function or feature.
        call: &'static str,
        /// The device or library.
        object: String,
    },
    /// The caller passed invalid arguments.
    #[error("{call}: {reason}")]
    Invalid {
        /// The operation.
        call: &'static str,
        /// The reason, with the invalid values.
        reason: String,
    },
    /// No device of that name, or no device at all.
    #[error("no verbs device {wanted}; found: {found}")]
    NoDevice {
        /// The requested name, or "at all".
        wanted: String,
        /// The names of the existing devices, or "none".
        found: String,
    },
}

impl Error {
    pub(crate) fn call(call: &'static str, object: impl Into<String>, errno: i32) -> Error {
        let object = object.into();
        match errno {
            libc::EOPNOTSUPP | libc::ENOSYS => Error::Unsupported { call, object },
            _ => Error::Call {
                call,
                object,
                errno,
            },
        }
    }

    /// Returns the error of a call that returned NULL, from this thread's `errno`.
    pub(crate) fn last(call: &'static str, object: impl Into<String>) -> Error {
        let errno = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        Error::call(call, object, errno)
    }

    /// Adds an explanation to an error that lack of memory may cause, if `explanation` returns one.
    pub(crate) fn explained(self, explanation: impl FnOnce() -> Option<String>) -> Error {
        match self {
            Error::Call {
                call,
                object,
                errno: errno @ (libc::ENOMEM | libc::EAGAIN | libc::EPERM),
            } => match explanation() {
                Some(explanation) => Error::Locked {
                    call,
                    object,
                    explanation,
                },
                None => Error::Call {
                    call,
                    object,
                    errno,
                },
            },
            other => other,
        }
    }

    pub(crate) fn invalid(call: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid {
            call,
            reason: reason.into(),
        }
    }
}
