//! Errors of verbs calls: which call, on what, and why.

use std::io;

/// Result of a verbs call.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library could not be loaded or lacks a function.
    #[error("cannot load {library}: {reason}")]
    Load {
        /// Path or name as given.
        library: String,
        /// The loader's words, or the missing symbol.
        reason: String,
    },
    /// A call failed with an `errno`.
    #[error("{call} on {object} failed: {}", io::Error::from_raw_os_error(*errno))]
    Call {
        /// The C function.
        call: &'static str,
        /// What it was called on, with its telling attributes.
        object: String,
        /// The error number.
        errno: i32,
    },
    /// A call failed for want of memory, and the process's limit of locked memory would explain it.
    #[error("{call} on {object} failed: {explanation}")]
    Locked {
        /// The C function.
        call: &'static str,
        /// What it was called on.
        object: String,
        /// The limit, and what is needed.
        explanation: String,
    },
    /// The library or device has no such operation.
    #[error("{call} is not supported by {object}")]
    Unsupported {
        /// The C function or feature.
        call: &'static str,
        /// The device or library.
        object: String,
    },
    /// The caller asked for something that has no meaning.
    #[error("{call}: {reason}")]
    Invalid {
        /// The operation.
        call: &'static str,
        /// What was wrong, with the offending values.
        reason: String,
    },
    /// No device of that name, or none at all.
    #[error("no verbs device {wanted}; found: {found}")]
    NoDevice {
        /// The name asked for, or "at all".
        wanted: String,
        /// The names there are, or "none".
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

    /// The last `errno` of this thread, for calls that return NULL.
    pub(crate) fn last(call: &'static str, object: impl Into<String>) -> Error {
        let errno = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        Error::call(call, object, errno)
    }

    /// The same with what a want of memory means, if something explains it.
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
